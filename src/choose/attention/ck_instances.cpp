#include "choose/attention/ck_instances.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "instances/attention/ck.hpp"
#include "instances/attention/ck_tiles.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;

/// Pairs of head dims that the family is built for and that hold the wanted ones, the smallest first. A family that
/// works on one of the two alone does not look at the other.
std::vector<HeadDims> head_dims_for(const CkFacts& facts, const AmdAttentionSpec& spec,
                                    const AttentionSignature& wanted) {
  std::vector<HeadDims> dims = amd_attention_head_dims(facts.chip, spec, wanted.family, wanted.data_type);
  const bool reads_qk = wanted.family != F::fwd_splitkv_combine && wanted.family != F::bwd_dot_do_o;
  const bool reads_v = wanted.family != F::bwd_convert_dq;
  std::erase_if(dims, [&](HeadDims each) {
    return (reads_qk && each[0] < wanted.head_dim_qk) || (reads_v && each[1] < wanted.head_dim_v);
  });
  std::ranges::sort(dims);
  return dims;
}

/// Upstream lists kernels of fp32 under a receipt of their own.
int receipt_of(DataType type) {
  constexpr int kUsual = 0, kSingle = 800;
  return type == DataType::fp32 ? kSingle : kUsual;
}

}  // namespace

Result<CkInstances> ck_attention_instances(const CkFacts& facts, const AttentionSignature& wanted, CkSizesTest suits) {
  const auto& loaded = amd_attention_spec();
  if (!loaded) return std::unexpected(loaded.error());
  const AmdAttentionSpec& spec = *loaded;
  const auto none = [&](std::string why, std::string hint) {
    return fail(ErrorCode::unsupported,
                fmt::format("no instance of Composable Kernel's {} for {} computes this problem: {}",
                            name_of(wanted.family), facts.chip.arch.text(), why),
                std::move(hint));
  };
  CkInstances found;
  for (const HeadDims dims : head_dims_for(facts, spec, wanted)) {
    AttentionSignature traits = wanted;
    traits.head_dim_qk = dims[0];
    traits.head_dim_v = dims[1];
    AttentionSweep sweep;
    sweep.data_types = {wanted.data_type};
    const AmdAttentionQuery query{.chip = facts.chip,
                                  .spec = spec,
                                  .receipt = receipt_of(wanted.data_type),
                                  .sweep = std::move(sweep),
                                  .head_dims = {dims}};
    RefusalList refused({});
    enumerate_amd_attention(query, variant_of(wanted.family), [&](const KernelConfig& config) {
      if (config.attention() != traits) return true;
      const AmdAttentionSubject subject{config, facts.chip, spec};
      for (const auto rules : {amd_attention_sound_rules(), amd_attention_source_rules()})
        if (const auto* rule = first_refusal(rules, subject)) {
          refused.add(*rule, subject);
          return true;
        }
      if (const std::string_view why = suits(config); !why.empty())
        refused.add(config, "suits_shape", std::string(why));
      else if (std::ranges::find(found.serving, config) == found.serving.end())
        found.serving.push_back(config);
      return true;
    });
    std::ranges::move(refused.take(), std::back_inserter(found.refused));
    if (!found.serving.empty()) return found;
  }
  if (found.refused.empty())
    return none(fmt::format("none of {} has these traits and head dims {}x{}", name_of(wanted.data_type),
                            wanted.head_dim_qk, wanted.head_dim_v),
                "tilesmith list --origin ck shows what there is");
  const Refusal& last = found.refused.back();
  return none(fmt::format("{}: {}", last.rule, last.figures), "--refused shows each instance's reason");
}

int ck_category(std::int64_t seqlen_q, int rows, int most) {
  const bool whole = seqlen_q > 0 && seqlen_q % rows == 0;
  if (seqlen_q <= rows && whole) return 0;
  if (rows == 64) return 1;
  if (rows == most) return 2;
  return whole ? 3 : 4;
}

int ck_padded_dimensions(const KernelConfig& config) {
  return static_cast<int>(std::ranges::count_if(config.algorithm.pad, [](std::uint8_t pad) { return pad != 0; }));
}

int ck_blocks_per_cu(const KernelConfig& config, const AmdChip& chip) {
  const auto& spec = amd_attention_spec();
  const Algorithm& a = config.algorithm;
  const AttentionSignature& s = config.attention();
  if (!spec) return 1;
  const AmdAttentionSubject subject{config, chip, *spec};
  const bool copies_ahead = s.family == F::fwd && is_async(*spec, a.pipeline);
  const bool has_bias = s.bias == BiasKind::elementwise;
  // Composable Kernel's pipelines choose by the padded head dim when they are asked for -1.
  const auto asked = [&]() -> int {
    if (a.block_per_cu > 0) return a.block_per_cu;
    if (s.family >= F::bwd_dot_do_o) return s.family == F::bwd_dq_dk_dv && a.max_seqlen_q == 0 ? 1 : 2;
    if (a.pipeline == Pipeline::qr_async_trload_v3) return 2;
    if (copies_ahead && ((has_bias && s.dropout) || (a.pipeline == Pipeline::qr_async_trload && a.tile[0] >= 256)))
      return 1;
    const int columns = a.tile[5];
    if (columns <= 32) return 2;
    if (columns <= 64) return copies_ahead && has_bias && a.pad[1] != 0 ? 2 : 3;
    if (columns <= 128) return has_bias && (!copies_ahead || a.pad[1] != 0) ? 1 : 2;
    return 1;
  }();
  const long bytes = copies_ahead ? amd_async_lds_bytes(subject) : amd_sync_lds_bytes(subject);
  return bytes > 0 ? static_cast<int>(std::clamp<long>(chip.lds_bytes / bytes, 1, asked)) : asked;
}

}  // namespace tilesmith
