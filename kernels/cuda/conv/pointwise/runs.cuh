// Convolution by filters of one tap on any number of channels, forward and backward data, of 16-bit tensors, for sm_80
// and newer. Pixels of a few bytes more or less than whole sixteens cannot be loaded or stored 16 bytes at a time, but a
// warp's pixels together are one run of memory, in either image: it comes to shared memory and goes back as that.
// Channels of a pixel are taken out of it there, and results put into theirs.
//
// Configuration: as of pointwise/data.cuh, with kRead 1, kPairs false, and kStages tiles of a warp in shared memory.
// The filter has one tap, which meets every pixel. Channels are neighbours, and pixels are evenly apart. Where there is
// one group, pixels have no gaps between them and begin at a multiple of 16 bytes, an image is read, or written, by
// runs; else element by element.
//
// Launch: kThreads threads; a grid of args.splits blocks for each group; dynamic shared memory of the filters' bytes (as
// of data.cuh), and for each warp of kStages tiles of pixels and one of results.
#pragma once

#include "product.cuh"

namespace ts::conv {

static_assert(!kOctets);

// Of shared memory.
TS_DEVICE u32 load_word(u32 address) {
  u32 word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
TS_DEVICE void store_word(u32 address, u32 word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}
template <int kBytes>
TS_DEVICE u32 load_element(u32 address) {
  u32 element;
  if constexpr (kBytes == 4)
    element = load_word(address);
  else
    asm volatile("{ .reg .b16 x; ld.shared.b16 x, [%1]; cvt.u32.u16 %0, x; }" : "=r"(element) : "r"(address) : "memory");
  return element;
}
template <int kBytes>
TS_DEVICE void store_element(u32 address, u32 element) {
  if constexpr (kBytes == 4)
    store_word(address, element);
  else
    asm volatile("{ .reg .b16 x; cvt.u16.u32 x, %1; st.shared.b16 [%0], x; }" ::"r"(address), "r"(element) : "memory");
}

// Eight channels from a place in shared memory on, of which so many are there; zeros for the others.
TS_DEVICE void take_octet(u32 (&words)[4], u32 at, int there, bool whole) {
  words[0] = words[1] = words[2] = words[3] = 0;
  if (there <= 0) return;
  if (whole) {
    load_shared(words, at);
    return;
  }
  // Those of the words that hold them, moved by an element where they begin in the middle of one.
  u32 held[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) held[i] = load_word((at & ~3u) + 4 * i);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 word = __funnelshift_r(held[i], held[i + 1], 8 * (at & 2));
    words[i] = there >= 2 * i + 2 ? word : there == 2 * i + 1 ? word & 0xffff : 0;
  }
}

// One of the two images: channels of a pixel, elements from one to the next, and whether pixels are read or written by
// runs.
template <int kBytes>
struct Image {
  char* first;  // of the group
  i64 step;
  int channels;
  bool by_runs;

  TS_DEVICE Image(const void* data, const TsConvStrides& s, i64 group, int of_pixel, const TsCudaConvArgs& args)
      : first(static_cast<char*>(const_cast<void*>(data)) + group * s.group * kBytes),
        step(pixel_step(args, s)),
        channels(of_pixel),
        by_runs((step == of_pixel || all_pixels(args) == 1) && reinterpret_cast<u64>(first) % 16 == 0) {}

  // From memory to a warp's place for it; asynchronous by runs.
  TS_DEVICE void bring(u32 to, i64 pixel, int rows, int lane) const {
    if (by_runs) {
      const char* const from = first + pixel * channels * kBytes;
      const int bytes = rows * channels * kBytes, whole = bytes & ~15, rest = whole + lane * kBytes;
      for (int i = 16 * lane; i < whole; i += 16 * 32) copy_async(to + i, from + i, true);
      if (rest < bytes) store_element<kBytes>(to + rest, load_bits<kBytes>(from + rest));  // at the end of the image
      return;
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = lane; c < channels; c += 32)
        store_element<kBytes>(to + (r * channels + c) * kBytes, load_bits<kBytes>(at(pixel + r, c)));
    }
  }

  // And back.
  TS_DEVICE void leave(u32 from, i64 pixel, int rows, int lane) const {
    if (by_runs) {
      const int elements = rows * channels, of_chunk = 16 / kBytes, whole = elements / of_chunk * of_chunk;
      char* const to = first + pixel * channels * kBytes;
      constexpr int kTogether = 4;  // chunks of a lane
      for (int i = of_chunk * lane; i < whole; i += kTogether * of_chunk * 32) {
        u32 words[kTogether][4];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int chunk = i + j * of_chunk * 32;
          load_shared(words[j], from + (chunk < whole ? chunk : 0) * kBytes);
        }
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int chunk = i + j * of_chunk * 32;
          store_16_bytes_if(chunk < whole, to + chunk * kBytes, words[j]);
        }
      }
      if (whole + lane < elements)
        store_bits<kBytes>(to + (whole + lane) * kBytes, load_element<kBytes>(from + (whole + lane) * kBytes));
      return;
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = lane; c < channels; c += 32)
        store_bits<kBytes>(at(pixel + r, c), load_element<kBytes>(from + (r * channels + c) * kBytes));
    }
  }

 private:
  TS_DEVICE char* at(i64 pixel, int channel) const { return first + (pixel * step + channel) * kBytes; }
};

struct PointwiseRuns {
  static constexpr int kBytes = OctetResults::kBytes;

  Product product;
  Image<kElementBytes> read;
  Image<kBytes> written;
  u32 stages, results;  // the warp's places in shared memory

  TS_DEVICE PointwiseRuns(const Product& of)
      : product(of),
        read(kForward ? of.args.x : of.args.y, kForward ? of.args.x_strides : of.args.y_strides, of.group,
             of.read_channels(), of.args),
        written(of.args.out, kForward ? of.args.y_strides : of.args.x_strides, of.group, of.columns(), of.args) {
    const u32 warp = threadIdx.x / 32, first = of.filters + of.filter_bytes();
    stages = first + warp * cfg::kStages * stage_bytes();
    results = first + cfg::kWarps * cfg::kStages * stage_bytes() + warp * kRows * written.channels * kBytes;
  }

  // Tiles are dealt out to the warps of all of the group's blocks.
  TS_DEVICE void run(int block) const {
    const int lane = product.lane;
    const i64 pixels = all_pixels(product.args), apart = static_cast<i64>(product.args.splits) * cfg::kWarps * kRows;
    const auto rows_at = [&](i64 pixel) { return static_cast<int>(pixels - pixel < kRows ? pixels - pixel : kRows); };
    const auto bring = [&](int stage, i64 pixel) {
      if (pixel < pixels) read.bring(stages + stage * stage_bytes(), pixel, rows_at(pixel), lane);
      copy_commit();
    };
    const i64 first = (static_cast<i64>(block) * cfg::kWarps + threadIdx.x / 32) * kRows;
    for (int i = 0; i < cfg::kStages; ++i) bring(i, first + i * apart);
    product.prepare();
    int stage = 0;
    for (i64 pixel = first; pixel < pixels; pixel += apart) {
      copy_wait_for<cfg::kStages - 1>();
      __syncwarp();
      Octets octets;
      take(octets, stages + stage * stage_bytes());
      __syncwarp();
      bring(stage, pixel + cfg::kStages * apart);
      stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
      multiply(octets, pixel, rows_at(pixel));
      __syncwarp();
      written.leave(results, pixel, rows_at(pixel), lane);
    }
  }

 private:
  TS_DEVICE u32 stage_bytes() const { return kRows * read.channels * kElementBytes; }

  TS_DEVICE void take(Octets& octets, u32 from) const {
    const int own = 8 * (product.lane & 3);
    const bool whole = read.channels % 8 == 0;
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u32 at = from + ((16 * m + 8 * r + product.lane / 4) * read.channels + own) * kElementBytes;
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
          take_octet(octets[m][r][s], at + 32 * s * kElementBytes, read.channels - 32 * s - own, whole);
      }
    }
  }

  // A tile's products, 32 columns at a time, and their results, which become runs.
  TS_DEVICE void multiply(const Octets& octets, i64 pixel, int rows) const {
    const int first = product.lane / 4;
#pragma unroll 1
    for (int column = 0; column < written.channels; column += 32) {
      Sums sums = {};
      product.multiply(octets, column, sums);
      const int own = column + 8 * (product.lane & 3);
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
        const OctetResults octet(product.args,
                                 PointwisePlace{16 * m, own, rows - first, written.channels, product.group,
                                                pixel + first + 16 * m, product.args},
                                 sums[m]);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          put_octet(results + ((16 * m + 8 * r + first) * written.channels + own) * kBytes, octet.words[r],
                    written.channels - own);
      }
    }
  }

  // Of eight results so many as are there.
  TS_DEVICE void put_octet(u32 to, const u32 (&words)[4 * OctetResults::kChunks], int there) const {
    constexpr int kWords = 4 * OctetResults::kChunks, kOfWord = 4 / kBytes;
    if (written.channels % 8 == 0) {
#pragma unroll
      for (int i = 0; i < kWords; i += 4)
        if (there > 0) store_shared(to + 4 * i, {words[i], words[i + 1], words[i + 2], words[i + 3]});
    } else if (written.channels % kOfWord == 0) {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        if (there > kOfWord * i) store_word(to + 4 * i, words[i]);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (there > i) store_element<kBytes>(to + i * kBytes, words[i / kOfWord] >> 16 * (i % kOfWord));
    }
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_pointwise
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  ts::conv::run_group<ts::conv::PointwiseRuns>(args);
}
