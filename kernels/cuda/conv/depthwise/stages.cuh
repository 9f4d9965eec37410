// How tiles of pixels get to shared memory: a ring of stages, filled by asynchronous copies of 16 bytes.
//
// A tile lies there as rows of pixels with the block's channels. A thread reads two channels of pixel after pixel; where
// several strips share a warp, an odd number of columns of a strip keeps them in different banks.
#pragma once

#include "../../attention/mma_sm80/copy.cuh"
#include "steps.cuh"

namespace ts::conv {

// Steps are planned by the threads of a warp, one each, because a plan takes long: half of the slots at a time.
constexpr int kSlots = 32;
constexpr int kStepBytes = kSlots * static_cast<int>(sizeof(Step));
static_assert(kStepBytes % 16 == 0 && cfg::kStages <= kSlots / 2);

// A tensor of which tiles are copied: its first element of the block's channels.
struct Pixels {
  const char* base;
  const TsConvStrides& strides;
  int size_h, size_w;
  int channels;  // that exist
};

// Copies `rows` x `columns` pixels that are `hop` apart, from (row, column) of an image's slice on. What lies outside the
// image becomes zeros, and so does what lies behind the first `rows_met` and `columns_met`. Swizzled, chunk c of pixel p
// of 128 bytes lies at c ^ (p & 7), of 64 bytes at c ^ (p / 2 & 3): eight neighbours' chunks are in different banks then.
template <bool kSwizzled = false>
TS_DEVICE void copy_tile(u32 to, const Shape& shape, const Pixels& pixels, int image, int slice, int row, int column,
                         int row_hop, int column_hop, int rows, int columns, int rows_met, int columns_met) {
  const int chunks = shape.pixel_bytes / 16, thread = static_cast<int>(threadIdx.x);
  const int chunk = thread & (chunks - 1), first = thread / chunks, together = kThreads / chunks;
  const bool wanted = chunk * (16 / kElementBytes) < pixels.channels;
  const i64 row_bytes = pixels.strides.spatial[1] * kElementBytes, column_bytes = pixels.strides.spatial[2] * kElementBytes;
  int h = first / columns, w = first - h * columns;
  int at_h = row + h * row_hop, at_w = column + w * column_hop;
  const u32 end_h = imax(imin(pixels.size_h, row + rows_met * row_hop), 0);
  const u32 end_w = imax(imin(pixels.size_w, column + columns_met * column_hop), 0);
  // From one of the thread's pixels to the next, and what it is too far where a row ends between.
  const int h_step = together / columns, w_step = together - h_step * columns;
  const i64 apart = h_step * row_hop * row_bytes + w_step * column_hop * column_bytes;
  const i64 back = row_hop * row_bytes - columns * column_hop * column_bytes;
  const char* from = pixels.base + (image * pixels.strides.batch + slice * pixels.strides.spatial[0]) * kElementBytes +
                     chunk * 16 + at_h * row_bytes + at_w * column_bytes;
  // Swizzled: from one of its pixels to the next a thread passes over a multiple of 8.
  static_assert(!kSwizzled || kThreads % 64 == 0);
  to += first * shape.pixel_bytes + (kSwizzled ? chunk ^ (first * chunks / 8 & (chunks - 1)) : chunk) * 16;
  while (h < rows) {
    copy_async(to, from, wanted && static_cast<u32>(at_h) < end_h && static_cast<u32>(at_w) < end_w);
    to += together * shape.pixel_bytes;
    from += apart;
    h += h_step;
    at_h += h_step * row_hop;
    w += w_step;
    at_w += w_step * column_hop;
    if (w >= columns) {
      w -= columns;
      at_w -= columns * column_hop;
      ++h;
      at_h += row_hop;
      from += back;
    }
  }
}

// Calls copy(step, stage) for every step, kStages - 1 steps ahead of work(step, stage); start() while the first copies
// are under way. plan(number) is the step of that number.
template <class Plan, class Copy, class Start, class Work>
TS_DEVICE void run_steps(Step* slots, Plan plan, Copy copy, Start start, Work work) {
  constexpr int kAhead = cfg::kStages - 1, kHalf = kSlots / 2;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kSlots) slots[thread] = plan(thread);
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kAhead; ++s) {
    if (slots[s].wanted) copy(slots[s], s);
    copy_commit();
  }
  start();
  int stage = 0;
  for (int number = 0;; ++number) {
    copy_wait_for<kAhead - 1>();
    __syncthreads();
    const Step& step = slots[number % kSlots];
    if (!step.wanted) break;
    const Step& next = slots[(number + kAhead) % kSlots];
    if (next.wanted) copy(next, stage == 0 ? cfg::kStages - 1 : stage - 1);
    copy_commit();
    if (number > 0 && number % kHalf == 0 && thread < kHalf)
      slots[(number + kHalf + thread) % kSlots] = plan(number + kHalf + thread);
    work(step, stage);
    stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
  }
}

// A thread's two channels of a pixel.
template <int kType>
TS_DEVICE void load_two(float& low, float& high, const unsigned char* p) {
  Pair<kType> pair;
  if constexpr (bytes_of(kType) == 4) {
    const uint2 words = *reinterpret_cast<const uint2*>(p);
    pair.words[0] = words.x;
    pair.words[1] = words.y;
  } else {
    pair.words[0] = *reinterpret_cast<const u32*>(p);
  }
  unpack<kType>(pair, low, high);
}

// What kColumns results meet of a row by kTaps taps; pixels between, which none meets, are left out.
constexpr int kWindow = (cfg::kColumns - 1) * cfg::kPace + cfg::kTaps;
struct Window {
  float low[kWindow], high[kWindow];

  TS_DEVICE void load(const unsigned char* p, int pixel_bytes) {
#pragma unroll
    for (int e = 0; e < kWindow; ++e) {
      if (e % cfg::kPace < cfg::kTaps) load_two<cfg::kTypeA>(low[e], high[e], p + e * pixel_bytes);
    }
  }
};

}  // namespace ts::conv
