// Rows of images of 1 to 4 channels in shared memory, as they lie in x, for tensor cores: a line of a row's pixels with
// their channels or, where channels are apart and pixels neighbours, a line of each channel.
//
// What a result meets of a line by a row of the filter are neighbours there, and a tensor core takes two elements of 16
// bits at a time. So the depth of a product is numbered by pairs, those of all lines of the filter, made a multiple of
// four, which are a unit. A result's own pairs begin `pace` pixels behind its neighbour's; where that is an odd number of
// elements, those of every other result lie across two words.
//
//   parity   whether a line's first tap begins with the second element of a pair; the element before it, and what lies
//            behind the last tap, are masked, as they may be what no sum may have (NaN)
//
// Lines that begin at multiples of 16, 8 or 4 bytes are copied asynchronously, so many bytes at a time; of any others
// elements are read one by one. What lies outside the image becomes zeros.
#pragma once

#include "../../gemm/mma.cuh"
#include "../depthwise/stages.cuh"
#include "../read.cuh"

namespace ts::conv {

constexpr int kUnitBytes = 16;
constexpr int kPairsOfUnit = 4;
// Rows that a thread brings together element by element: beside many sums registers are scarce.
constexpr int rows_together(int sums, bool others) {
  return sums <= 32 ? 8 : others ? 2 : 4;
}
constexpr int kResults = cfg::kRows * cfg::kColumns;
static_assert(kElementBytes == 2 && cfg::kColumns == 16, "sixteen results of a row are a tensor core's rows");

struct Lines {
  int pace;      // pixels between neighbouring results of a row
  int channels;  // of a line
  int planes;    // lines of a row of pixels
  int met;       // elements of a line of the filter
  int span;      // elements that a tile's row of results meets of a line
  int parity;
  int pairs;  // of a line of the filter
  int units;  // of a slice of it; an even number, as tensor cores take two at a time
  int bytes;  // of a line
  int chunk;  // elements that are copied together; 0: elements are read one by one

  explicit TS_DEVICE Lines(const TsCudaConvArgs& args) {
    const TsConvStrides& x = args.x_strides;
    const int taps = static_cast<int>(args.filter[2]), c = static_cast<int>(args.c);
    pace = args.tap_step[2];
    channels = x.channel != 1 && x.spatial[2] == 1 ? 1 : c;
    planes = c / channels;
    met = taps * channels;
    span = ((cfg::kColumns - 1) * pace + taps) * channels;
    parity = static_cast<int>(args.pad[2]) * channels & 1;
    pairs = ceil_div(parity + met, 2);
    units = ceil_div(static_cast<int>(args.filter[1]) * planes * pairs, 2 * kPairsOfUnit) * 2;
    bytes = ceil_div(span + 9, 8) * 16;  // with what is before, and read beside a last pair
    const i64 starts = x.batch | x.spatial[0] | x.spatial[1] | (planes > 1 ? x.channel : 0) |
                       reinterpret_cast<unsigned long long>(args.x) / kElementBytes;
    const bool follow = (channels == 1 || x.channel == 1) && x.spatial[2] == channels && args.dilation[2] == 1;
    // Tiles begin at multiples of sixteen results.
    chunk = !follow || starts % 2 != 0 ? 0 : starts % 8 == 0 ? 8 : starts % 4 == 0 ? 4 : 2;
  }

  // Elements of a line before the first that is met.
  TS_DEVICE int lead(const TsCudaConvArgs& args) const {
    return chunk > 0 ? -static_cast<int>(args.pad[2]) * channels & (chunk - 1) : parity;
  }
  // From a row of results to the next, and from a result of a row to the next.
  TS_DEVICE int row_bytes(int row_pace) const { return row_pace * planes * bytes; }
  TS_DEVICE int result_bytes() const { return pace * channels * kElementBytes; }
  // Whether every other result's pairs lie across two words.
  TS_DEVICE bool across() const { return pace * channels & 1; }

  // Of a pair that a result meets: how far from the result's own place, and the bits that count.
  TS_DEVICE uint2 place(const TsCudaConvArgs& args, int number) const {
    const int line = number / pairs, first = 2 * (number - line * pairs) - parity;
    if (line >= static_cast<int>(args.filter[1]) * planes) return make_uint2(0, 0);
    const u32 mask = (first >= 0 ? 0x0000ffffu : 0) | (first + 1 < met ? 0xffff0000u : 0);
    return make_uint2(line * bytes + (lead(args) + first) * kElementBytes, mask);
  }

  // The place of a pair's first or second element in a slice of w, in elements, if it has it.
  TS_DEVICE bool filter_place(const TsCudaConvArgs& args, int number, int second, i64& place) const {
    const int line = number / pairs, element = 2 * (number - line * pairs) - parity + second;
    const int h = line / planes, tap = element / channels, c = line - h * planes + element - tap * channels;
    place = h * args.w_strides.spatial[1] + tap * args.w_strides.spatial[2] + c * args.w_strides.channel;
    return h < static_cast<int>(args.filter[1]) && element >= 0 && element < met;
  }

  // Brings `rows` rows of a step. They are dealt out to the threads, so that a thread has the same part of each of its.
  template <int kTogether>
  TS_DEVICE void bring(const TsCudaConvArgs& args, const Step& s, int rows, unsigned char* stage) const {
    const char* const slice = static_cast<const char*>(args.x) +
                              (s.image * args.x_strides.batch + s.slice * args.x_strides.spatial[0]) * kElementBytes;
    if (chunk > 0)
      copy(args, s, rows, slice, stage);
    else
      read<kTogether>(args, s, rows, slice, stage);
  }

 private:
  // Lines are numbered by row and plane; a thread's next is `together` on.
  TS_DEVICE void copy(const TsCudaConvArgs& args, const Step& s, int rows, const char* slice, unsigned char* stage) const {
    const int chunks = ceil_div(lead(args) + span, chunk), together = imax(kThreads / (chunks * planes), 1);
    const int all = chunks * planes, line = static_cast<int>(args.x_size[2]) * channels;
    const int begin = all <= kThreads ? static_cast<int>(threadIdx.x) / all : 0;
    if (begin >= together) return;
    const i64 row_step = args.x_strides.spatial[1] * kElementBytes, apart = together * s.row_hop * row_step;
    const u32 size_h = static_cast<u32>(args.x_size[1]);
#pragma unroll 1
    for (int own = static_cast<int>(threadIdx.x) - begin * all; own < all; own += kThreads) {
      const int plane = own / chunks, of_line = own - plane * chunks;
      // The line's own start is the start of a chunk, so a chunk is cut at the line's end alone.
      const int first = s.column * channels - lead(args) + of_line * chunk;
      const int there = first < 0 ? 0 : imax(imin(line - first, chunk), 0) * kElementBytes;
      int row = s.row + begin * s.row_hop;
      const char* from = slice + row * row_step + (plane * args.x_strides.channel + first) * kElementBytes;
      u32 to = smem_address(stage) + (begin * planes + plane) * bytes + of_line * chunk * kElementBytes;
#pragma unroll 1
      for (int i = begin; i < rows; i += together) {
        copy_part(to, from, static_cast<u32>(row) < size_h ? there : 0);
        row += together * s.row_hop;
        from += apart;
        to += together * planes * bytes;
      }
    }
  }
  TS_DEVICE void copy_part(u32 to, const char* from, int there) const {
    if (chunk == 8)
      copy_async_part(to, from, there);
    else if (chunk == 4)
      copy_read_part<8>(to, from, there);
    else
      copy_read_part<4>(to, from, there);
  }

  template <int kTogether>
  TS_DEVICE void read(const TsCudaConvArgs& args, const Step& s, int rows, const char* slice, unsigned char* stage) const {
    const TsConvStrides& x = args.x_strides;
    const int words = ceil_div(parity + span, 2), all = words * planes, together = imax(kThreads / all, 1);
    const int begin = all <= kThreads ? static_cast<int>(threadIdx.x) / all : 0;
    if (begin >= together) return;
    const i64 row_step = x.spatial[1] * kElementBytes;
#pragma unroll 1
    for (int own = static_cast<int>(threadIdx.x) - begin * all; own < all; own += kThreads) {
      const int plane = own / words, word = own - plane * words;
      const char* from[2];
      bool there[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int element = 2 * word + e - parity, pixel = element / channels, c = plane + element - pixel * channels;
        const int column = s.column + pixel * s.column_hop;
        there[e] = element >= 0 && element < span && static_cast<u32>(column) < static_cast<u32>(args.x_size[2]);
        from[e] = slice + (column * x.spatial[2] + c * x.channel) * kElementBytes;
      }
#pragma unroll 1
      for (int i = begin; i < rows; i += kTogether * together) {
        u32 v[kTogether][2];
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          const int row = s.row + (i + t * together) * s.row_hop;
          const bool wanted = i + t * together < rows && static_cast<u32>(row) < static_cast<u32>(args.x_size[1]);
#pragma unroll
          for (int e = 0; e < 2; ++e) v[t][e] = wanted && there[e] ? load_bits<kElementBytes>(from[e] + row * row_step) : 0;
        }
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          if (i + t * together < rows)
            *reinterpret_cast<u32*>(stage + ((i + t * together) * planes + plane) * bytes + word * 4) =
                v[t][0] | v[t][1] << 16;
        }
      }
    }
  }
};

// What a block knows of its work, in shared memory: beside many sums there is no room for it in registers.
struct Work {
  Lines lines;
  Run run;
  int partial, slice;  // of backward weight: the block's among all partials, and its slice of the filter
};
constexpr int kWorkBytes = 128;
static_assert(sizeof(Work) <= kWorkBytes);

// The block's, behind its steps; all threads call it.
TS_DEVICE const Work& block_work(const TsCudaConvArgs& args, int run, int partial, int slice, unsigned char* shared) {
  Work* const work = reinterpret_cast<Work*>(shared + kStepBytes);
  if (threadIdx.x == 0) {
    work->lines = Lines(args);
    work->partial = partial;
    work->slice = slice;
  }
  if (threadIdx.x == 32) work->run = Run::of(args, run);
  __syncthreads();
  return *work;
}

}  // namespace ts::conv
