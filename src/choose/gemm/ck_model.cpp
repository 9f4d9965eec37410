#include "choose/gemm/ck_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "spec/amd/ck_gemm.hpp"

namespace tilesmith {
namespace {

/// Fragments of four rows or columns are sixteen small products in one instruction, at a quarter of the rate of the
/// others (4x4x4 with 16 blocks takes 8 passes, 32x32x8 takes 16: AMD matrix instruction calculator, from knowledge).
double fragment_share(const Algorithm& a) {
  return std::min(a.warp[0], a.warp[1]) == 4 ? 0.25 : 1;
}

}  // namespace

double ck_gemm_seconds(const Algorithm& a, DataType type, const CkFacts& facts, const ComputeUnitProduct& product) {
  const auto& spec = amd_gemm_spec();
  // Both buffers where the pipeline has two; as many blocks as local memory holds, two at most.
  const bool has_two = spec && spec->lds_budget(facts.chip, a.pipeline) < facts.chip.lds_bytes;
  const long staged = (long{a.tile[0]} + a.tile[1]) * a.tile[2] * bits_of(type) / 8 * (has_two ? 2 : 1);
  const int blocks = staged > 0 ? static_cast<int>(std::clamp<long>(facts.chip.lds_bytes / staged, 1, 2)) : 1;
  const int waves = a.wave[0] * a.wave[1] * a.wave[2];
  const std::int64_t tiles =
      product.batch * ceil_div(product.m, std::int64_t{a.tile[0]}) * ceil_div(product.n, std::int64_t{a.tile[1]});
  const ComputeUnitTile tile{.m = a.tile[0],
                             .n = a.tile[1],
                             .k = a.tile[2],
                             .waves_m = a.wave[0],
                             .waves_n = a.wave[1],
                             .element_bytes = bits_of(type) / 8.0,
                             .blocks_per_cu = blocks,
                             .matrix_share = facts.busy_share(waves, tiles, blocks) * fragment_share(a)};
  return predicted_seconds(tile, facts.reference, type, product);
}

}  // namespace tilesmith
