#include "choose/gemm/ck_model.hpp"

#include <algorithm>

#include "choose/gemm/stream_k_model.hpp"
#include "choose/rounding.hpp"
#include "spec/amd/ck_gemm.hpp"

namespace tilesmith {
namespace {

constexpr int kMostBlocks = 2;  // of a compute unit, as far as is counted

/// Fragments of four rows or columns are sixteen small products in one instruction, at a quarter of the rate of the
/// others (4x4x4 with 16 blocks takes 8 passes, 32x32x8 takes 16: AMD matrix instruction calculator, from knowledge).
double fragment_share(const Algorithm& a) {
  return std::min(a.warp[0], a.warp[1]) == 4 ? 0.25 : 1;
}

/// Of a kernel whose grid has `blocks`.
ComputeUnitTile tile_of(const Algorithm& a, DataType type, const CkFacts& facts, std::int64_t blocks) {
  const auto& spec = amd_gemm_spec();
  // Both buffers where the pipeline has two; as many blocks as local memory holds, two at most. A B in the order of
  // fragments is not staged.
  const bool has_two = spec && spec->lds_budget(facts.chip, a.pipeline) < facts.chip.lds_bytes;
  const long rows = long{a.tile[0]} + (a.preshuffle ? 0 : a.tile[1]);
  const long staged = rows * a.tile[2] * bits_of(type) / 8 * (has_two ? 2 : 1);
  const int blocks_per_cu =
      staged > 0 ? static_cast<int>(std::clamp<long>(facts.chip.lds_bytes / staged, 1, kMostBlocks)) : 1;
  const int waves = a.wave[0] * a.wave[1] * a.wave[2];
  return {.m = a.tile[0],
          .n = a.tile[1],
          .k = a.tile[2],
          .waves_m = a.wave[0],
          .waves_n = a.wave[1],
          .element_bytes = bits_of(type) / 8.0,
          .b_in_fragments = a.preshuffle,
          .blocks_per_cu = blocks_per_cu,
          .matrix_share = facts.busy_share(waves, blocks, blocks_per_cu) * fragment_share(a)};
}

}  // namespace

double ck_gemm_seconds(const Algorithm& a, DataType type, const CkFacts& facts, const ComputeUnitProduct& product) {
  const std::int64_t tiles =
      product.batch * ceil_div(product.m, std::int64_t{a.tile[0]}) * ceil_div(product.n, std::int64_t{a.tile[1]});
  return predicted_seconds(tile_of(a, type, facts, tiles), facts.reference, type, product);
}

double ck_stream_k_seconds(const Algorithm& a, const CkStreamK& how, const CkFacts& facts,
                           const ComputeUnitProduct& product) {
  const std::int64_t places = std::int64_t{facts.reference.compute_units} * kMostBlocks;  // all of which have work
  return stream_k_seconds(tile_of(a, how.type, facts, places), facts.reference, how.type, product, how.reduction,
                          bits_of(how.result) / 8.0);
}

}  // namespace tilesmith
