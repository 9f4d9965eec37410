// What depthwise templates share whose tiles of pixels the copy engine brings (sm_90a). A thread has two channels of a
// strip: kStripColumns results of some rows (backward weight: pixels of y). Strips share a tile's columns, and those that
// are left its rows.
#pragma once

#include "../mapped.cuh"

namespace ts::conv {

constexpr int kLanes = cfg::kChannels / 2, kPixelBytes = 2 * cfg::kChannels;
constexpr int kStripColumns = 7;
constexpr int kStrips = kThreads / kLanes;
constexpr int kStripsAlong = cfg::kColumns / kStripColumns, kStripsDown = kStrips / kStripsAlong;
constexpr int kStripRows = cfg::kRows / kStripsDown;
constexpr int kPitch = (cfg::kColumns - 1) * cfg::kPace + cfg::kTaps;  // pixels of a row of a tile
constexpr int kTileRows = (cfg::kRows - 1) * cfg::kPace + cfg::kTapRows;
constexpr int kRowsMet = (kStripRows - 1) * cfg::kPace + cfg::kTapRows;  // by a strip
constexpr int kPixelsMet = (kStripColumns - 1) * cfg::kPace + cfg::kTaps;
constexpr int kTileAlignment = 128;
constexpr int kTileBytes = kTileRows * kPitch * kPixelBytes;
static_assert(kElementBytes == 2 && (cfg::kChannels == 32 || cfg::kChannels == 64));
static_assert(cfg::kColumns % kStripColumns == 0 && kThreads % (kLanes * kStripsAlong) == 0 &&
              cfg::kRows % kStripsDown == 0);

constexpr int aligned_bytes(int bytes) {
  return ceil_div(bytes, kTileAlignment) * kTileAlignment;
}

TS_DEVICE int lane_of_strip() {
  return static_cast<int>(threadIdx.x) % kLanes;
}
TS_DEVICE int strip() {
  return static_cast<int>(threadIdx.x) / kLanes;
}
// Of the strip in the tile.
TS_DEVICE int first_row() {
  return strip() / kStripsAlong * kStripRows;
}
TS_DEVICE int first_column() {
  return strip() % kStripsAlong * kStripColumns;
}

// The lane's two channels of neighbouring pixels of a row.
template <int kPixels>
TS_DEVICE void load_pixels(float (&pixels)[kPixels][2], const unsigned char* from) {
  Pair<cfg::kTypeA> words[kPixels];
#pragma unroll
  for (int e = 0; e < kPixels; ++e) words[e].words[0] = *reinterpret_cast<const u32*>(from + e * kPixelBytes);
#pragma unroll
  for (int e = 0; e < kPixels; ++e) unpack<cfg::kTypeA>(words[e], pixels[e][0], pixels[e][1]);
}

}  // namespace ts::conv
