#include "codegen/attention/hip.hpp"

#include <fmt/format.h>

#include "codegen/attention/gpu_traits.hpp"
#include "codegen/hip_source.hpp"
#include "instances/attention/hip_resources.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

Result<Source> hip_attention_source(const KernelConfig& config, const HipSpec& spec,
                                    std::span<const EmbeddedFile> files) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  const HipFragment* fragment = spec.fragment(s.data_type, a.warp[0]);
  if (fragment == nullptr)
    return fail(ErrorCode::internal, fmt::format("{} has no instruction on {}", native_name(config), spec.arch.text()));
  const HipAttentionResources resources = hip_attention_resources(config, spec, *fragment);
  ConstantsTable table;
  add_attention_traits(table, s);
  table.add("kUnaligned", s.unaligned);
  table.add("kWaves", a.wave[0]);
  table.add("kTileN", resources.tile_keys);
  table.add("kQueriesInLds", resources.queries_in_lds);
  table.add("kWavesOfSimd", resources.waves_per_simd);
  const bool split = a.pipeline != Pipeline::flash;
  table.add("kPackGqa", split);
  table.add("kSplit", split);
  table.add("kPaged", s.paged_kv);
  add_hip_fragment(table, spec, *fragment);
  return hip_source(config, table, *fragment, files,
                    a.pipeline == Pipeline::rowwise ? "hip/attention/join.h" : "hip/attention/attention_fwd.h");
}

}  // namespace tilesmith
