// What the templates of banded products share: depthwise convolution on tensor cores for Hopper (sm_90a), of 16-bit
// tensors.
//
// Eight neighbouring results of a row are a product of what they meet, at most 15 pixels, with a band: a matrix that has
// a row of the filter in each column, each a place further down. Its operands want neighbours along the row, and memory
// has them along the channels. So tiles are turned round in shared memory: pixels of 32 channels become 32 planes of
// pixels, in which eight neighbours are 16 bytes. Rows of even and odd numbers are apart, the rows of a product being
// every other one of a plane: of two neighbouring rows of results, what both meet is loaded once.
#pragma once

#include "../../gemm/mma.cuh"
#include "../mapped.cuh"

namespace ts::conv {

constexpr int kLanes = 16;  // of two channels each
constexpr int kChannels = 2 * kLanes, kOctets = kChannels / 8;
constexpr int kPixelBytes = kChannels * 2;
constexpr bool kSmall = cfg::kImages > 1;
constexpr int kPitch = kSmall ? 16 : 24;  // pixels of a row of a tile: what its results meet, and zeros
constexpr int kTileRows = cfg::kRows - 1 + cfg::kTaps;  // of an image
constexpr int kTileBytes = cfg::kImages * kTileRows * kPitch * kPixelBytes;
constexpr int kTileAlignment = 512;  // of the swizzle
static_assert(kTileBytes % kTileAlignment == 0);
constexpr int kPlaneRowBytes = kPitch * 2;
constexpr int kParts = cfg::kWarps / kOctets;       // warps of an octet
constexpr int kChannelsOfWarp = kChannels / cfg::kWarps;
static_assert(kElementBytes == 2 && cfg::kPace == 1 && cfg::kRows == (kSmall ? 8 : 16) && cfg::kColumns == cfg::kRows);
static_assert(cfg::kImages == (kSmall ? 4 : 1));
static_assert(cfg::kTaps % 2 == 1 && cfg::kTaps <= 9, "rows of x come in twos, a band has 16 rows");

// A plane of images of `rows` rows: the even rows of all images, and the odd ones. The bytes of an image's, of all, and
// from a plane to the next: whatever eight rows, or eight planes, are loaded at a time are in different banks.
constexpr int image_bytes(int rows) {
  return (rows + 1) / 2 * kPlaneRowBytes + (kSmall ? 16 : 0);
}
constexpr int half_bytes(int rows) {
  return cfg::kImages * image_bytes(rows);
}
constexpr int plane_bytes(int rows) {
  return 2 * half_bytes(rows) + 16;
}

// A product has eight pairs of rows of two octets of columns. Where pair m of octet o begins in half a plane: in the
// second of two octets of an image, or in another image; and of the first octet the image and the first row of results.
TS_DEVICE int pair_at(int rows, int m, int o) {
  return kSmall ? (m / 4 + 2 * o) * image_bytes(rows) + m % 4 * kPlaneRowBytes : m * kPlaneRowBytes + o * 16;
}
struct PairPlace {
  int image, row;
};
TS_DEVICE PairPlace place_of_pair(int m) {
  return kSmall ? PairPlace{m / 4, m % 4 * 2} : PairPlace{0, 2 * m};
}

TS_DEVICE void load_two_matrices(u32 (&r)[2], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}
TS_DEVICE void load_two_matrices_transposed(u32 (&r)[2], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}
// What the rows of results that are `taps` rows apart at most meet of a plane: of row 2m + i the columns of either octet,
// and the eight behind them: matrices o + 2 * (0 or 1). Of an image the second octet's are those behind the first's.
template <bool kTransposed>
TS_DEVICE void load_rows(u32 (&x)[2][4], u32 plane, int i) {
  const int matrix = lane() / 8, row = lane() % 8;
  const u32 from = plane + i / 2 * kPlaneRowBytes;
  const auto load_four = [](u32(&r)[4], u32 address) {
    kTransposed ? load_matrices_transposed(r, address) : load_matrices(r, address);
  };
  if constexpr (kSmall) {
#pragma unroll
    for (int e = 0; e < 2; ++e)
      load_four(x[e], from + pair_at(kTileRows, row, matrix & 1) + matrix / 2 * 16 + e * half_bytes(kTileRows));
  } else {
    u32 four[4], two[2];
    const u32 first = from + row * kPlaneRowBytes, second = first + half_bytes(kTileRows);
    load_four(four, matrix < 3 ? first + matrix * 16 : second);
    kTransposed ? load_two_matrices_transposed(two, second + (1 + (matrix & 1)) * 16)
                : load_two_matrices(two, second + (1 + (matrix & 1)) * 16);
    x[0][0] = four[0], x[0][1] = x[0][2] = four[1], x[0][3] = four[2];
    x[1][0] = four[3], x[1][1] = x[1][2] = two[0], x[1][3] = two[1];
  }
}

TS_DEVICE void store_word(u32 address, u32 word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

// Adds the products of two elements with zero: from the first that is not finite on `sum` is not a number.
TS_DEVICE void add_nothing(u32& sum, u32 elements) {
  if constexpr (cfg::kTypeA == TS_GEMM_BF16)
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(elements), "r"(0));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(elements), "r"(0));
}

// Turns the rows of an octet's tile round that are the warp's: every kParts-th one from row `part` on, of images of
// kRowsOfImage rows, for planes of images of kRowsOfPlane. Not zero (but for the sign), if asked, where an element is not
// finite.
template <int kRowsOfImage, int kColumnsOfTile, bool kLooks = false, int kRowsOfPlane = kRowsOfImage>
TS_DEVICE u32 turn_round(u32 tile, u32 planes) {
  constexpr int kEights = kColumnsOfTile / 8;  // of a row
  constexpr int kAll = cfg::kImages * kRowsOfImage / kParts * kEights;  // of a part
  constexpr int kPeriod = kEights == 3 ? 3 : 1;                  // loads after which a row begins anew
  constexpr int kRowsOfPeriod = 4 * kPeriod / kEights;
  constexpr int kRowBytes = kParts * kColumnsOfTile * kPixelBytes;
  static_assert(kParts <= 2 && kRowsOfImage % 2 == 0 && kEights <= 3);
  const int octet = warp() / kParts, part = warp() % kParts;
  u32 from[kPeriod], nothing = 0;
#pragma unroll
  for (int v = 0; v < kPeriod; ++v) {
    const int eight = 4 * v + lane() / 8;
    from[v] = tile + (part * kColumnsOfTile + eight % kEights * 8 + lane() % 8) * kPixelBytes +
              eight / kEights * kRowBytes + ((octet ^ (lane() / 2 & 3)) << 4);
  }
  const u32 to = planes + (8 * octet + lane() / 4) * plane_bytes(kRowsOfPlane) + (lane() & 3) * 4 +
                 part * half_bytes(kRowsOfPlane);
#pragma unroll
  for (int first = 0; first < kAll; first += 4) {
    u32 words[4];
    load_matrices_transposed(words, from[first / 4 % kPeriod] + first / 4 / kPeriod * kRowsOfPeriod * kRowBytes);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = (first + e) / kEights * kParts, column = (first + e) % kEights;  // the row without `part`
      const int of_image = row % kRowsOfImage;
      const int at = (of_image & 1) * half_bytes(kRowsOfPlane) + row / kRowsOfImage * image_bytes(kRowsOfPlane) +
                     of_image / 2 * kPlaneRowBytes;
      if (first + e < kAll)
        store_word(to + at + column * 16, words[e]);
      if (kLooks && first + e < kAll) add_nothing(nothing, words[e]);
    }
  }
  return nothing;
}

}  // namespace ts::conv
