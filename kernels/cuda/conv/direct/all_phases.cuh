// Columns that are the channels of all phases: their results lie beside each other in x.
//
// A column has zeros for the pixels of y that its phase does not meet. What is not finite there would make sums NaN that
// do not meet it: where a warp finds sums that are not finite, it adds them up again without such pixels.
#pragma once

#include "../channel_place.cuh"
#include "sums.cuh"

namespace ts::conv {

struct PhaseColumns {
  static constexpr int kBytes = bytes_of(cfg::kTypeD);

  const Tables& tables;

  // Whether a thread's two neighbouring columns are neighbours in x, at even elements.
  TS_DEVICE bool go_by_pairs() const {
    const TsCudaConvArgs& args = tables.args;
    const TsConvStrides& s = args.x_strides;
    const i64 line = AllPhases::along(args, 2) * s.spatial[2];
    const i64 steps = s.batch | s.spatial[0] | s.spatial[1] |
                      args.stride[2] * s.spatial[2] | line | static_cast<i64>(reinterpret_cast<u64>(args.out) / kBytes);
    return s.channel == 1 && s.spatial[2] == args.c && steps % 2 == 0;
  }

  // `begin` is the box's first result in x, whose coordinates are `first`; rows are the thread's, in the box.
  template <bool kPairs>
  TS_DEVICE void store(char* begin, const int (&first)[3], const i64 (&offsets)[kSixteens][2],
                       const int (&rows)[kSixteens][2], const Sums& sums) const {
    const TsCudaConvArgs& args = tables.args;
    bool whole = true;  // all results of the box lie in x
#pragma unroll
    for (int d = 0; d < 3; ++d)
      whole = whole && first[d] + tables.boxes.sizes.results[d] * static_cast<int>(args.stride[d]) <= args.x_size[d];
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      u32 column[2][4];
      Vector vector[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        load_shared(column[e], tables.columns_of_phases() + kEntryBytes * (8 * n + 2 * (threadIdx.x & 3) + e));
        if (static_cast<int>(column[e][3]) >= 0) vector[e].load(args, static_cast<int>(column[e][3]));
      }
      const i64 offset = joined(column[0][0], column[0][1]) * kBytes;
      const i64 apart = joined(column[1][0], column[1][1]) * kBytes - offset;
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          bool there[2];
          float v[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            there[e] = rows[m][r] >= 0 && static_cast<int>(column[e][3]) >= 0;
            if (!whole) there[e] = there[e] && lies_in_x(first, rows[m][r], static_cast<int>(column[e][2]));
            v[e] = vector[e].apply(args, static_cast<int>(column[e][3]), sums[m][n][2 * r + e]);
          }
          char* const to = begin + offsets[m][r] + offset;
          // Where x ends between the phases of a coordinate, the second may be there without the first.
          if (there[0])
            store_pair<cfg::kTypeD, kPairs>(to, pack_pair<cfg::kTypeD>(v[0], v[1]), 1 + there[1], apart);
          else if (there[1])
            store_pair<cfg::kTypeD, false>(to + apart, pack_pair<cfg::kTypeD>(v[1], v[1]), 1);
        }
      }
    }
  }

  // Sums that are not finite, of the pixels that results meet alone.
  TS_DEVICE void mend(u32 stage, int first_row, Sums& sums) const {
    u32 infinite = 0;
#pragma unroll
    for (int e = 0; e < 4 * kSixteens * kEights; ++e)
      infinite |= (__float_as_uint(sums[e / 4 / kEights][e / 4 % kEights][e % 4]) & 0x7f800000u) == 0x7f800000u;
    if (!__any_sync(0xffffffffu, infinite)) return;
    const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll 1
    for (int number = 0; number < 4 * kSixteens * kEights; ++number) {
      const int row = first_row + 16 * (number / 4 / kEights) + 8 * (number / 2 % 2) + lane / 4;
      const float sum = add_up(stage, row, 8 * (number / 4 % kEights) + 2 * (lane & 3) + number % 2);
#pragma unroll
      for (int e = 0; e < 4 * kSixteens * kEights; ++e) {
        if (e == number) sums[e / 4 / kEights][e / 4 % kEights][e % 4] = sum;
      }
    }
  }

 private:
  // What an epilogue reads of a channel.
  struct Vector {
    Operands<0, 16> operands;
    static TS_DEVICE ChannelPlace place(int channel) { return {channel, 0, channel + 1, 16}; }
    TS_DEVICE void load(const TsCudaConvArgs& args, int channel) {
      if constexpr (cfg::kEpilogueLength > 0) operands.load(args, place(channel));
    }
    TS_DEVICE float apply(const TsCudaConvArgs& args, int channel, float sum) {
      if constexpr (cfg::kEpilogueLength > 0) {
        float v[8] = {sum};
        operands.apply(args, place(channel), v, {});
        return v[0];
      }
      return sum;
    }
  };

  TS_DEVICE bool lies_in_x(const int (&first)[3], int row, int phase) const {
    bool there = true;
#pragma unroll
    for (int d = 0; d < 3; ++d)
      there = there && first[d] + coordinate(row, d) * static_cast<int>(tables.args.stride[d]) + coordinate(phase, d) <
                           tables.args.x_size[d];
    return there;
  }

  TS_DEVICE float add_up(u32 stage, int row, int column) const {
    const int of_box = tables.row_at(row);
    int phase[3], number[3];
    if (of_box < 0 || column >= tables.columns()) return 0.0f;
    const TsCudaConvBoxes& sizes = tables.boxes.sizes;
    const int channel = tables.channel_of(column, phase);
    const u32 first = stage + ((coordinate(of_box, 0) * sizes.pixels[1] + coordinate(of_box, 1)) * sizes.pixels[2] +
                               coordinate(of_box, 2)) * tables.pitch;
    float sum = 0.0f;
#pragma unroll 1
    for (int unit = 0; unit < tables.boxes.all_taps() * tables.octets; ++unit) {
      tables.pixel_of_unit(unit, number);
      if (tables.filter_at(phase, channel, number) < 0) continue;
      const u32 pixel = first + load_word(tables.units_of_taps() + kEntryBytes * unit + 8);
      u32 y[4], w[4];
      load_shared(y, pixel);
      load_shared(w, tables.filters() + (unit * cfg::kTileN + column) * kOctetBytes);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        Pair<cfg::kTypeA> of_y;
        Pair<cfg::kTypeB> of_w;
        of_y.words[0] = y[e], of_w.words[0] = w[e];
        float low_y, high_y, low_w, high_w;
        unpack<cfg::kTypeA>(of_y, low_y, high_y);
        unpack<cfg::kTypeB>(of_w, low_w, high_w);
        sum = fmaf(high_y, high_w, fmaf(low_y, low_w, sum));
      }
    }
    return sum;
  }
};

}  // namespace ts::conv
