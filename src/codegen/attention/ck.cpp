// The words of attention's sources for Composable Kernel.
#include <fmt/format.h>

#include <bit>

#include "codegen/ck_words.hpp"
#include "instances/attention/ck.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;
using Text = std::string;

enum Trait : CkTraits {
  kBias = 1u << 0,
  kLse = 1u << 1,
  kDropout = 1u << 2,
  kSoftCap = 1u << 3,
  kSink = 1u << 4,
  kSkip = 1u << 5,
  kPerTensorScale = 1u << 6,
  kBlockScale = 1u << 7,
  kPaged = 1u << 8,
  kPageSize = 1u << 9,
  kRope = 1u << 10,
  kDeterministic = 1u << 11,
  kBiasGradient = 1u << 12,
  kTransposedLoad = 1u << 13,
  kShortQueries = 1u << 14,
  kPadsOfEight = 1u << 15,
  kBlockTable = 1u << 16,
};
constexpr std::string_view kTraitNames[] = {"bias",
                                            "log-sum-exp",
                                            "dropout",
                                            "soft cap",
                                            "sink",
                                            "skipping of short sequences",
                                            "scale for each tensor",
                                            "scale for each block",
                                            "paged keys",
                                            "fixed page size",
                                            "rotary embedding",
                                            "deterministic sum",
                                            "gradient of the bias",
                                            "transposed load",
                                            "limit of query rows",
                                            "alignment of eight elements",
                                            "table with a row of pages for each sequence"};

const AttentionSignature& signature(const KernelConfig& c) {
  return c.attention();
}
void flag(Text& out, bool value) {
  out += value ? "true" : "false";
}
void number(Text& out, long long value) {
  append_integer(out, value);
}
template <std::size_t kPlace>
void tile_figure(Text& out, const KernelConfig& c, const AmdChip&) {
  number(out, c.algorithm.tile[kPlace]);
}
template <std::size_t kProduct>
void waves(Text& out, const KernelConfig& c, const AmdChip&) {
  append_sequence(out, std::span(c.algorithm.wave).subspan(3 * kProduct, 3));
}
template <std::size_t kProduct>
void warp(Text& out, const KernelConfig& c, const AmdChip&) {
  append_sequence(out, std::span(c.algorithm.warp).subspan(3 * kProduct, 3));
}
template <std::size_t kPlace>
void pad(Text& out, const KernelConfig& c, const AmdChip&) {
  flag(out, c.algorithm.pad[kPlace] != 0);
}
template <std::size_t kPlace>
void pad_width(Text& out, const KernelConfig& c, const AmdChip&) {
  number(out, c.algorithm.pad[kPlace]);
}
template <bool AttentionSignature::*kField>
void trait(Text& out, const KernelConfig& c, const AmdChip&) {
  flag(out, signature(c).*kField);
}

bool is_transposed(Pipeline pipeline) {
  return pipeline == Pipeline::qr_async_trload || pipeline == Pipeline::qr_async_trload_v3;
}

void backward_tile(Text& out, const KernelConfig& c, const AmdChip&) {
  std::array<std::uint16_t, 9> t = c.algorithm.tile;
  // A list of six figures (m0 n0 k0 n1 k1 k0max) leaves the products over rows to the kernel: they take m0 rows.
  if (t[7] == 0) t = {t[0], t[1], t[2], t[0], t[4], t[0], t[5], signature(c).head_dim_qk, signature(c).head_dim_v};
  append_sequence(out, t);
}
void backward_blocks(Text& out, const KernelConfig& c, const AmdChip&) {
  // The backward classes have no rule for -1 and would hand it to the compiler as a bound.
  const int asked = c.algorithm.block_per_cu;
  const bool main = signature(c).family == F::bwd_dq_dk_dv;
  number(out, asked > 0 ? asked : main && c.algorithm.max_seqlen_q == 0 ? 1 : 2);
}
void backward_dropout(Text& out, const KernelConfig& c, const AmdChip&) {
  const bool stores = signature(c).dropout_variant == DropoutVariant::wg16_storerandval;
  out += "ck_tile::BlockDropoutBwd<";
  flag(out, signature(c).dropout);
  out += ", ";
  flag(out, !signature(c).dropout || c.algorithm.warp[1] == 32);  // as wide as the fragment of the first product
  out += ", ";
  flag(out, signature(c).dropout && stores);
  out += '>';
}
void bias(Text& out, const KernelConfig& c, const AmdChip&) {
  out += "ck_tile::BlockAttentionBiasEnum::";
  out += signature(c).bias == BiasKind::none          ? "NO_BIAS"
         : signature(c).bias == BiasKind::elementwise ? "ELEMENTWISE_BIAS"
                                                      : "ALIBI";
}
void qscale(Text& out, const KernelConfig& c, const AmdChip&) {
  constexpr std::string_view kNames[] = {"NO_SCALE", "PERTENSOR", "BLOCKSCALE", "KV_BLOCKSCALE"};
  out += "ck_tile::BlockAttentionQuantScaleEnum::";
  out += kNames[static_cast<std::size_t>(signature(c).qscale)];
}
void rope(Text& out, const KernelConfig& c, const AmdChip&) {
  constexpr std::string_view kNames[] = {"NONE", "INTERLEAVED", "HALF_ROTATED"};
  out += "ck_tile::RotaryEmbeddingEnum::";
  out += kNames[static_cast<std::size_t>(signature(c).rope)];
}
void kv_layout(Text& out, const KernelConfig& c, const AmdChip&) {
  out += "ck_tile::BlockAttentionKVCacheMemoryLayoutEnum::";
  out += signature(c).kv_layout == KvLayout::linear ? "LINEAR_LAYOUT" : "VECTORIZED_LAYOUT";
}
void kv_lookup(Text& out, const KernelConfig& c, const AmdChip&) {
  out += "ck_tile::BlockAttentionKVCacheLookupTableEnum::";
  out += signature(c).kv_lookup == KvLookup::vllm ? "VLLM_BLOCK_TABLE_2D" : "SGLANG_PAGE_TABLE_1D";
}
void mask_generic(Text& out, const KernelConfig& c, const AmdChip&) {
  switch (signature(c).mask) {
    case MaskKind::none:
      out += "ck_tile::GenericAttentionMask<false>";
      return;
    case MaskKind::generic:
      out += "ck_tile::GenericAttentionMask<true, true>";
      return;
    default:
      out += "ck_tile::GenericAttentionMask<true, false>";
  }
}

constexpr CkWord kWords[] = {
    {"tile_6", [](Text& out, const KernelConfig& c,
                  const AmdChip&) { append_sequence(out, std::span(c.algorithm.tile).first(6)); }},
    {"tile_0", tile_figure<0>},
    {"tile_1", tile_figure<1>},
    {"tile_2", tile_figure<2>},
    {"tile_3", tile_figure<3>},
    {"backward_tile", backward_tile},
    {"waves_0", waves<0>},
    {"waves_1", waves<1>},
    {"waves_2", waves<2>},
    {"warp_0", warp<0>},
    {"warp_1", warp<1>},
    {"warp_2", warp<2>},
    {"pad_s", pad<0>},
    {"pad_sk", pad<1>},
    {"pad_d", pad<2>},
    {"pad_dv", pad<3>},
    {"any_pad_d", pad<2>},
    {"any_pad_dv", pad<3>},
    {"pad_d_width", pad_width<2>, kPadsOfEight},
    {"pad_dv_width", pad_width<3>, kPadsOfEight},
    {"v_row_major",
     [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, signature(c).v_layout == MatrixOrder::row); }},
    {"group_mode",
     [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, signature(c).mode == SequenceMode::group); }},
    {"mask_simplified",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       out += "ck_tile::SimplifiedGenericAttentionMask<";
       flag(out, signature(c).mask != MaskKind::none);
       out += '>';
     }},
    {"mask_generic", mask_generic},
    {"bias", bias, kBias},
    {"dbias", trait<&AttentionSignature::dbias>, kBiasGradient},
    {"lse", trait<&AttentionSignature::lse>, kLse},
    {"dropout", trait<&AttentionSignature::dropout>, kDropout},
    {"backward_dropout", backward_dropout, kDropout},
    {"soft_cap", trait<&AttentionSignature::soft_cap>, kSoftCap},
    {"sink", trait<&AttentionSignature::sink>, kSink},
    {"skip_min_seqlen_q", trait<&AttentionSignature::skip_min_seqlen_q>, kSkip},
    {"qscale", qscale, kPerTensorScale | kBlockScale},
    {"fp8_static",
     [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, signature(c).qscale == QuantScale::pertensor); },
     kPerTensorScale},
    {"variant_code", [](Text& out, const KernelConfig& c,
                        const AmdChip&) { out += signature(c).soft_cap ? "ck_tile::LOGITS_SOFT_CAP" : "0"; }},
    {"fast_exp2", [](Text& out, const KernelConfig&, const AmdChip&) { out += "CK_TILE_FMHA_FWD_FAST_EXP2"; }},
    {"use_trload",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       // The transposed pipelines compute nothing without it.
       flag(out, c.algorithm.use_trload || is_transposed(c.algorithm.pipeline));
     },
     kTransposedLoad},
    {"paged_kv", trait<&AttentionSignature::paged_kv>, kPaged},
    {"page_size", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, signature(c).page_size); },
     kPageSize},
    {"kv_layout", kv_layout},
    {"kv_lookup", kv_lookup, kBlockTable},
    {"rope", rope, kRope},
    {"hdim_q", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, signature(c).head_dim_qk); }},
    {"hdim_v", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, signature(c).head_dim_v); }},
    {"deterministic", trait<&AttentionSignature::deterministic>, kDeterministic},
    {"block_per_cu", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.block_per_cu); }},
    {"backward_block_per_cu", backward_blocks},
    {"max_seqlen_q_limit",
     [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.max_seqlen_q); }, kShortQueries},
};

CkTraits needs(const KernelConfig& c) {
  const AttentionSignature& s = signature(c);
  const auto bit = [](bool wanted, CkTraits trait) { return wanted ? trait : CkTraits{0}; };
  if (s.family == F::fwd_splitkv_combine) return bit(s.lse, kLse);
  if (s.family == F::bwd_dot_do_o) return 0;
  CkTraits out = bit(s.deterministic, kDeterministic);
  if (s.family == F::bwd_convert_dq) return out;
  out |= bit(s.paged_kv && s.family != F::batch_prefill, kPaged) | bit(s.rope != RopeKind::none, kRope);
  if (s.family == F::fwd_appendkv) return out;
  out |= bit(s.bias != BiasKind::none, kBias) | bit(s.dropout, kDropout) | bit(s.dbias, kBiasGradient) |
         bit(s.soft_cap, kSoftCap) | bit(s.sink, kSink) | bit(s.skip_min_seqlen_q, kSkip) |
         bit(s.qscale == QuantScale::pertensor, kPerTensorScale) |
         bit(s.qscale == QuantScale::blockscale || s.qscale == QuantScale::kv_blockscale, kBlockScale) |
         bit(c.algorithm.use_trload || is_transposed(c.algorithm.pipeline), kTransposedLoad) |
         bit(s.page_size != 1, kPageSize) | bit(c.algorithm.max_seqlen_q != 0, kShortQueries) |
         bit(s.family == F::batch_prefill && s.kv_lookup == KvLookup::vllm, kBlockTable);
  if (s.family == F::bwd_dq_dk_dv) return out | bit(c.algorithm.pad[2] == 8 || c.algorithm.pad[3] == 8, kPadsOfEight);
  return out | bit(s.lse, kLse);
}

std::string_view type_tag(DataType type) {
  switch (type) {
    case DataType::fp32:
      return "Fp32";
    case DataType::bf16:
      return "Bf16";
    case DataType::fp8:
      return "Fp8";
    case DataType::bf8:
      return "Bf8";
    case DataType::fp8bf16:
      return "Fp8Bf16";
    case DataType::fp8fp32:
      return "Fp8Fp32";
    default:
      return "Fp16";
  }
}

void write_types(Text& out, const KernelConfig& c) {
  const bool backward = signature(c).family >= F::bwd_dot_do_o;
  out += backward ? "using Types = GradientTypes<" : "using Types = AttentionTypes<";
  out += type_tag(signature(c).data_type);
  out += ">;\n";
}

void set(Text& out, std::string_view field, std::string_view value) {
  out += "  r.";
  out += field;
  out += " = ";
  out += value;
  out += ";\n";
}
void set_number(Text& out, std::string_view field, long long value) {
  out += "  r.";
  out += field;
  out += " = ";
  number(out, value);
  out += ";\n";
}

/// The fields of AttentionRecord (kernels/ck/attention.h) that differ from their defaults.
void write_record(Text& out, const KernelConfig& c) {
  const AttentionSignature& s = signature(c);
  const Algorithm& a = c.algorithm;
  const auto enumerator = [&out](std::string_view field, std::string_view type, std::string_view name) {
    out += "  r.";
    out += field;
    out += " = ";
    out += type;
    out += "::";
    out += name;
    out += ";\n";
  };
  enumerator("family", "Family", name_of(s.family));
  enumerator("type", "Type", name_of(s.data_type));
  if (s.mode == SequenceMode::group) set(out, "group", "true");
  set_number(out, "hdim_q", s.head_dim_qk);
  set_number(out, "hdim_v", s.head_dim_v);
  set_number(out, "m0", a.tile[0]);
  set_number(out, "n0", a.tile[1]);
  set_number(out, "n1", a.tile[3]);
  if (a.tile[5] != 0 && s.family < F::bwd_dot_do_o) set_number(out, "k0max", a.tile[5]);
  constexpr std::string_view kPads[] = {"pad_s", "pad_sk", "pad_d", "pad_dv"};
  for (std::size_t i = 0; i < 4; ++i)
    if (a.pad[i] != 0) set_number(out, kPads[i], a.pad[i]);
  if (s.mask != MaskKind::none) enumerator("mask", "MaskKind", name_of(s.mask));
  if (s.bias != BiasKind::none) enumerator("bias", "Bias", name_of(s.bias) == "bias" ? "elementwise" : "alibi");
  const std::pair<bool, std::string_view> flags[] = {
      {s.lse, "lse"},
      {s.dropout, "dropout"},
      {s.soft_cap, "soft_cap"},
      {s.sink, "sink"},
      {s.skip_min_seqlen_q, "skip_min_seqlen_q"},
      {s.paged_kv, "paged_kv"},
      {s.deterministic, "deterministic"},
      {s.dbias, "dbias"},
      {s.v_layout == MatrixOrder::column, "v_column_major"},
      {s.dropout_variant == DropoutVariant::wg16_storerandval, "stores_rand_val"},
  };
  for (const auto& [on, field] : flags)
    if (on) set(out, field, "true");
  if (s.qscale != QuantScale::none) enumerator("qscale", "QuantScale", name_of(s.qscale));
  if (s.rope != RopeKind::none) enumerator("rope", "Rope", name_of(s.rope));
  if (s.family == F::batch_prefill) {
    set_number(out, "page_size", s.page_size);
    enumerator("kv_layout", "KvLayout", name_of(s.kv_layout));
    enumerator("kv_lookup", "KvLookup", name_of(s.kv_lookup));
  }
  if (a.max_seqlen_q != 0) set_number(out, "max_seqlen_q", a.max_seqlen_q);
  if (s.family == F::fwd) {
    const bool async = a.pipeline == Pipeline::qr_async;
    if (async || is_transposed(a.pipeline))
      enumerator("pipeline", "PipelineKind",
                 async                                        ? "async"
                 : a.pipeline == Pipeline::qr_async_trload_v3 ? "v3"
                                                              : "transposed");
  }
  if (a.use_trload && s.family == F::bwd_dq_dk_dv) enumerator("pipeline", "PipelineKind", "transposed");
}

Status accepts(const KernelConfig& c, const AmdChip& chip) {
  const auto& spec = amd_attention_spec();
  if (!spec) return std::unexpected(spec.error());
  if (!chip.attention)
    return fail(ErrorCode::unsupported, fmt::format("no attention instances are known for {}", chip.arch.text()));
  const AmdAttentionSubject subject{c, chip, *spec};
  if (const auto* rule = first_refusal(amd_attention_source_rules(), subject))
    return fail(ErrorCode::unsupported, fmt::format("{}: rule {}: {}", ck_name(c), rule->name, rule->figures(subject)),
                std::string(rule->about));
  return {};
}

}  // namespace

const CkOperation& ck_attention_operation() {
  static constexpr CkOperation kOperation{
      .words = kWords,
      .header = "attention_types.h",
      .dispatch_header = "attention.h",
      .arguments = "AttentionArguments",
      .record = "AttentionRecord",
      .instance = "AttentionInstance",
      .launch = [](std::string_view) { return std::string(); },
      .min_blocks = [](Pipeline) { return 1; },
      .workspace = [](std::string_view) { return std::string(); },
      .family = [](const KernelConfig& c) { return name_of(signature(c).family); },
      .needs = needs,
      .trait_name = [](CkTraits bit) { return kTraitNames[std::countr_zero(bit)]; },
      .write_types = write_types,
      .write_record = write_record,
      .accepts = accepts,
  };
  return kOperation;
}

}  // namespace tilesmith
