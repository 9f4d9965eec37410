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
  table.add("kWaves", resources.waves);
  table.add("kColumnWaves", resources.column_waves);
  table.add("kTileN", resources.tile_keys);
  table.add("kSharedPlace", resources.shared_place);
  table.add("kQueriesInLds", resources.queries_in_lds);
  table.add("kWavesOfSimd", resources.waves_per_simd);
  const bool split = a.pipeline != Pipeline::flash;
  table.add("kPackGqa", split);
  table.add("kSplit", split);
  table.add("kPaged", s.paged_kv);
  table.add("kCacheFp8", s.cache == KvElements::fp8);
  table.add("kCacheInt8", s.cache == KvElements::int8);
  table.add("kPageScale", s.qscale == QuantScale::kv_blockscale);
  add_hip_fragment(table, spec, *fragment);
  return hip_source(config, table, *fragment, files,
                    a.pipeline == Pipeline::rowwise ? "hip/attention/join.h" : "hip/attention/attention_fwd.h");
}

}  // namespace tilesmith
