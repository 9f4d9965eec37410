// What kernels of one tap have in common: the filters of a group in shared memory, and products of pixels with them.
//
// The order in which a product adds up channels is free. Of each 32 a thread takes eight neighbours of its pixels and of
// its filters. Columns are dealt out so that it has eight neighbours of its results, too.
#pragma once

#include "../../attention/mma_sm80/copy.cuh"
#include "../../common/launch.cuh"
#include "../../gemm/mma.cuh"
#include "../octet_results.cuh"

namespace ts::conv {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kSixteens = cfg::kTileM / 16 / cfg::kWarps;  // of pixels, of a warp
constexpr int kRows = 16 * kSixteens;
constexpr int kSteps = cfg::kDepth / 32;  // of 32 channels
constexpr int kElementBytes = 2, kOctetBytes = 16;
constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
constexpr bool kOctets = cfg::kRead == 8;  // channels of both images are whole eights
static_assert(cfg::kTileM == kRows * cfg::kWarps && cfg::kDepth == 32 * kSteps && cfg::kPairs == kOctets);
static_assert(bytes_of(cfg::kTypeA) == kElementBytes && cfg::kDirection != TS_CONV_BACKWARD_WEIGHT);

// Elements from one pixel of an image to the next, which are evenly apart.
TS_DEVICE i64 pixel_step(const TsCudaConvArgs& args, const TsConvStrides& s) {
  return args.x_size[2] > 1 ? s.spatial[2] : args.x_size[1] > 1 ? s.spatial[1] : args.x_size[0] > 1 ? s.spatial[0] : s.batch;
}

// Pixels of an image.
TS_DEVICE i64 all_pixels(const TsCudaConvArgs& args) {
  return args.batch * args.x_size[0] * args.x_size[1] * args.x_size[2];
}

// A thread's first pair of an octet of results, as gemm/epilogue.cuh asks for it.
struct PointwisePlace {
  int row, column;
  int row_limit, column_limit;
  i64 group, pixel;
  const TsCudaConvArgs& args;

  TS_DEVICE i64 entry_n(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 entry(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int r, int at) const {
    return (pixel + 8 * r) * pixel_step(args, o.strides) + at;
  }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 1; }
};

// What a thread has of a warp's tile: an octet of each 32 channels, of two rows of each sixteen.
using Octets = u32[kSixteens][2][kSteps][4];
using Sums = float[kSixteens][2][2][4];

struct Product {
  const TsCudaConvArgs& args;
  u32 filters;  // shared memory
  int lane;
  i64 group;

  TS_DEVICE int read_channels() const { return static_cast<int>(kForward ? args.c : args.k); }
  TS_DEVICE int columns() const { return static_cast<int>(kForward ? args.k : args.c); }
  TS_DEVICE int all_columns() const { return round_up(columns(), 32); }

  // Of shared memory.
  TS_DEVICE int filter_bytes() const {
    return kElementBytes * cfg::kDepth * 32 * (kForward ? all_columns() / 32 : all_columns() / 32 | 1);
  }

  // Forward: [32 channels that are read][column][octet of these channels]. Backward data: [channel that is read][column],
  // as an octet of its columns is what lies together.
  TS_DEVICE void prepare() const {
    constexpr int kReadOctets = cfg::kDepth / 8;
    const TsConvStrides& w = args.w_strides;
    const char* const base = static_cast<const char*>(args.w) + group * w.group * kElementBytes;
    if constexpr (kForward) {
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < kReadOctets * all_columns(); i += kThreads) {
        const int column = i / kReadOctets, octet = i - column * kReadOctets;
        const u32 to = filters + ((octet / 4 * all_columns() + dealt_column(column)) * 4 + octet % 4) * kOctetBytes;
        const int there = column < columns() ? read_channels() - 8 * octet : 0;
        const char* const from = base + (column * w.batch + 8 * octet) * kElementBytes;
        if constexpr (kOctets) {
          copy_async(to, there > 0 ? from : base, there > 0);
        } else {
          u32 words[4];
          load_octet(words, from, there);
          store_shared(to, words);
        }
      }
      if constexpr (kOctets) {
        copy_commit();
        copy_wait();
      }
    } else {
      const int octets = all_columns() / 8;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < cfg::kDepth * octets; i += kThreads) {
        const int channel = i / octets, octet = i - channel * octets;
        u32 words[4];
        load_octet(words, base + (channel * w.batch + 8 * octet) * kElementBytes,
                   channel < read_channels() ? columns() - 8 * octet : 0);
        const u32 row = filters + channel * row_bytes() + octet / 4 * 64;
#pragma unroll
        for (int e = 0; e < 4; ++e)  // of each eight columns of the products a pair
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(row + (e ^ channel >> 3 & 3) * kOctetBytes + octet % 4 * 4),
                       "r"(words[e])
                       : "memory");
      }
    }
    __syncthreads();
  }

  // A warp's pixels by 32 columns from `column` on.
  TS_DEVICE void multiply(const Octets& pixels, int column, Sums& sums) const {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        u32 b[4];
        load_filters(b, s, column + 8 * p);
#pragma unroll
        for (int m = 0; m < kSixteens; ++m) {
          const auto& a = pixels[m];
          multiply_add(sums[m][p / 2][p % 2], a[0][s][0], a[1][s][0], a[0][s][1], a[1][s][1], b[0], b[1]);
          multiply_add(sums[m][p / 2][p % 2], a[0][s][2], a[1][s][2], a[0][s][3], a[1][s][3], b[2], b[3]);
        }
      }
    }
  }

 private:
  // Rows of backward data are an odd number of 64 bytes apart, so that those that are loaded together, of neighbours and
  // of channels 8, 16 and 24 on, whose octets change places, meet different banks.
  TS_DEVICE u32 row_bytes() const { return 64 * (all_columns() / 32 | 1); }

  // What a thread multiplies of 32 channels that are read, by eight columns of the products from `column` on.
  TS_DEVICE void load_filters(u32 (&b)[4], int step, int column) const {
    if constexpr (kForward) {
      load_shared(b, filters + ((step * all_columns() + column) * 4 + lane) * kOctetBytes);
    } else {
      const int channel = 8 * (lane >> 1 & 3) + 2 * (lane >> 3) + (lane & 1);
      const u32 row = filters + (32 * step + channel) * row_bytes() + (lane >> 1 & 3) * kOctetBytes;
      load_matrices_transposed(b, (row ^ (column / 8 & 3) * kOctetBytes) + column / 32 * 64);
    }
  }

  // Eight neighbours of the filters, of which so many are there.
  static TS_DEVICE void load_octet(u32 (&words)[4], const char* from, int there) {
    if constexpr (kOctets) {
      load_chunk(words, from, there > 0);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = load_pair<cfg::kTypeA, false>(from + 2 * i * kElementBytes, there - 2 * i).words[0];
    }
  }
};

// The kernel of a group, whose blocks follow each other: `Kernel` is made of a Product, and run(block) is what that one of
// the group's blocks does.
template <class Kernel>
TS_DEVICE void run_group(const TsCudaConvArgs& args) {
  extern __shared__ __align__(64) unsigned char dynamic_shared[];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int block = static_cast<int>(blockIdx.x), group = block / args.splits;
  const Kernel kernel{Product{args, smem_address(dynamic_shared), static_cast<int>(threadIdx.x) & 31, group}};
  kernel.run(block - group * args.splits);
}

}  // namespace ts::conv
