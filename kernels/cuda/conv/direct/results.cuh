// The results of a box: GEMM's epilogue, and the store. A thread has rows and columns as products leave them.
#pragma once

#include "../store_if.cuh"
#include "all_phases.cuh"

namespace ts::conv {

// Where a thread's columns of sixteen belong, as gemm/epilogue.cuh asks for it, which reads vectors alone.
struct ColumnPlace {
  int row, column;  // 0, and 16 below: rows are there
  int row_limit, column_limit;
  i64 group;

  TS_DEVICE i64 entry_n(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 entry(const TsCudaConvOperand& o) const { return group * o.strides.group; }
};

struct Results {
  const Tables& tables;
  i64 offsets[kSixteens][2];  // of the thread's rows, in bytes from the box's first one

  static TS_DEVICE int first_row() { return static_cast<int>(threadIdx.x / 32) * 16 * kSixteens; }
  TS_DEVICE int row(int m, int r) const {
    return tables.row_at(first_row() + 16 * m + 8 * r + static_cast<int>(threadIdx.x & 31) / 4);
  }

  explicit TS_DEVICE Results(const Tables& of) : tables(of) {
    const TsConvStrides& s = strides();
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int own = row(m, r);
        offsets[m][r] = 0;
#pragma unroll
        for (int d = 0; d < 3; ++d) offsets[m][r] += coordinate(own, d) * step(d) * s.spatial[d] * kBytes;
      }
    }
  }

  TS_DEVICE void store(const Item& it, const Phase& p, const Sums& sums, bool wide) const {
    if (kMayStoreWide && wide)
      store_as<kMayStoreWide>(it, p, sums);
    else
      store_as<false>(it, p, sums);
  }

  // Whether four elements may be stored at once; of all phases' columns two.
  static TS_DEVICE bool go_wide(const Tables& tables) {
    if constexpr (cfg::kAllPhases) return PhaseColumns{tables}.go_by_pairs();
    const TsCudaConvArgs& args = tables.args;
    const TsConvStrides& s = kForward ? args.y_strides : args.x_strides;
    const i64 steps = s.batch | s.group | s.spatial[0] | s.spatial[1] | s.spatial[2] | tables.columns() |
                      static_cast<i64>(reinterpret_cast<u64>(args.out) / kBytes);
    return steps % 4 == 0;
  }

 private:
  static constexpr int kBytes = bytes_of(cfg::kTypeD);
  static constexpr bool kMayStoreWide = cfg::kAllPhases || (cfg::kPairs && kBytes == 2);

  TS_DEVICE const TsConvStrides& strides() const { return kForward ? tables.args.y_strides : tables.args.x_strides; }
  // From one result of a phase to the next along a coordinate, in pixels of the result's image.
  TS_DEVICE int step(int d) const { return kForward ? 1 : static_cast<int>(tables.args.stride[d]); }

  template <bool kWide>
  TS_DEVICE void store_as(const Item& it, const Phase& p, const Sums& sums) const {
    const TsCudaConvArgs& args = tables.args;
    const TsConvStrides& s = strides();
    char* begin =
        static_cast<char*>(args.out) + (it.group(tables.boxes.sizes) * s.group + it.image() * s.batch) * kBytes;
    int left[3];  // results of the box that exist
    bool whole = true;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const int of_box = tables.boxes.sizes.results[d], first = it.box(d) * of_box;
      left[d] = p.pixels[d] - first;
      whole = whole && left[d] >= of_box;
      begin += (p.first[d] + first * step(d)) * s.spatial[d] * kBytes;
    }
    if constexpr (cfg::kAllPhases) {
      store_columns<kWide>(it, begin, sums);
    } else {
      store_rows<kWide>(it, begin, left, whole, sums);
    }
  }

  template <bool kPairs>
  TS_DEVICE void store_columns(const Item& it, char* begin, const Sums& sums) const {
    int first[3], rows[kSixteens][2];
#pragma unroll
    for (int d = 0; d < 3; ++d) first[d] = it.box(d) * tables.boxes.sizes.results[d] * step(d);
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) rows[m][r] = row(m, r);
    }
    PhaseColumns{tables}.store<kPairs>(begin, first, offsets, rows, sums);
  }

  template <bool kQuads>
  TS_DEVICE void store_rows(const Item& it, char* begin, const int (&left)[3], bool whole, const Sums& sums) const {
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      bool there[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int own = row(m, r);
        there[r] = own >= 0;
        if (!whole) {
#pragma unroll
          for (int d = 0; d < 3; ++d) there[r] = there[r] && coordinate(own, d) < left[d];
        }
      }
#pragma unroll
      for (int n = 0; n < kEights; n += 2) {
        const int column = it.column(tables.boxes.sizes) + 8 * n;
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] = sums[m][n + e / 4][e % 4];
        if constexpr (cfg::kEpilogueLength > 0) {
          const int lane = static_cast<int>(threadIdx.x) & 31;
          const ColumnPlace place{0, column + 2 * (lane & 3), 16, tables.columns(), it.group(tables.boxes.sizes)};
          Operands<0, 16> operands;
          operands.load(tables.args, place);
          operands.apply(tables.args, place, v, {});
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) store_row<kQuads>(begin + offsets[m][r], column, there[r], v, r);
      }
    }
  }

  // Sixteen columns. Of 16 bits lanes exchange theirs, so that four of them store 32 bytes together.
  template <bool kQuads>
  TS_DEVICE void store_row(char* row, int column, bool there, const float (&v)[8], int r) const {
    const int lane = static_cast<int>(threadIdx.x) & 31, left = there ? tables.columns() - column : 0;
    const auto first = pack_pair<cfg::kTypeD>(v[2 * r], v[2 * r + 1]);
    const auto second = pack_pair<cfg::kTypeD>(v[4 + 2 * r], v[5 + 2 * r]);
    if constexpr (kQuads) {
      u32 words[2] = {first.words[0], second.words[0]};
      pair_exchange(words[0], words[1]);
      const int own = 8 * (lane & 1) + 4 * (lane >> 1 & 1);
      store_8_bytes_if(own < left, row + (column + own) * kBytes, words[0], words[1]);
    } else {
      const i64 apart = (cfg::kPairs ? 1 : strides().channel) * kBytes;
      const int own = 2 * (lane & 3);
      store_pair<cfg::kTypeD, cfg::kPairs>(row + (column + own) * apart, first, left - own, apart);
      store_pair<cfg::kTypeD, cfg::kPairs>(row + (column + own + 8) * apart, second, left - own - 8, apart);
    }
  }
};

}  // namespace ts::conv
