// Attention names:
//   fmha_<family>_<type>_<mode>_h<qk>[x<v>]_<pipeline>_t<six figures>[.<tag>]_w<three>_pad<four
//   digits>_mask=<m>_bias=<b>
//   [_lse=1][_drop=1][_logits=1][_sink=1][_skip=1][_qs=<qscale>][_pkv=1][_rope=<rope>][_ps=<page>][_kvl=<layout>][_kvt=<lookup>]
//   [_det=1][_dbias=1][_drv=<dropout variant>]_bpc=<blocks per compute unit>
#include "vocabulary/names/ck_text.hpp"

namespace tilesmith::ck {
namespace {

constexpr auto kFamily = tokens<AttentionFamily>("fmha_");
constexpr auto kType = tokens<DataType>("_");
constexpr auto kMode = tokens<SequenceMode>("_");
constexpr auto kPipeline = tokens<Pipeline>("_");
constexpr auto kMask = tokens<MaskKind>("_mask=");
constexpr auto kBias = tokens<BiasKind>("_bias=");
constexpr auto kScale = tokens<QuantScale>("_qs=");
constexpr auto kRope = tokens<RopeKind>("_rope=");
constexpr auto kLayout = tokens<KvLayout>("_kvl=");
constexpr auto kLookup = tokens<KvLookup>("_kvt=");
constexpr auto kVariant = tokens<DropoutVariant>("_drv=");
constexpr Token kTile("_t", ""), kWarp("_w", ""), kPad("_pad", ""), kPerCu("_bpc=", "");
constexpr Token kLse("_lse=1", ""), kDropout("_drop=1", ""), kLogits("_logits=1", ""), kSink("_sink=1", ""),
    kSkip("_skip=1", ""), kPaged("_pkv=1", ""), kDeterministic("_det=1", ""), kDbias("_dbias=1", "");

template <class E>
std::size_t index(E value) {
  return static_cast<std::size_t>(value);
}

constexpr bool is_backward(AttentionFamily family) {
  return family >= AttentionFamily::bwd_dot_do_o;
}

}  // namespace

char* write_attention_name(const KernelConfig& config, char* out) {
  const AttentionSignature& s = config.attention();
  const Algorithm& a = config.algorithm;
  Writer w(out);
  w.put(kFamily[index(s.family)]);
  w.put(kType[index(s.data_type)]);
  w.put(kMode[index(s.mode)]);
  w.put('_');
  w.put('h');
  w.number(s.head_dim_qk);
  if (s.head_dim_v != s.head_dim_qk) {
    w.put('x');
    w.number(s.head_dim_v);
  }
  w.put(kPipeline[index(a.pipeline)]);
  w.put(kTile);
  w.numbers(a.tile, 6);
  if (a.tag != TileTag::none) {
    w.put('.');
    w.put(name_of(a.tag));
  }
  w.put(kWarp);
  w.numbers(a.warp, 3);
  w.put(kPad);
  for (const std::uint8_t pad : a.pad) w.put(static_cast<char>('0' + pad));
  w.put(kMask[index(s.mask)]);
  w.put(kBias[index(s.bias)]);
  if (s.lse) w.put(kLse);
  if (s.dropout) w.put(kDropout);
  if (s.soft_cap) w.put(kLogits);
  if (s.sink) w.put(kSink);
  if (s.skip_min_seqlen_q) w.put(kSkip);
  if (s.qscale != QuantScale::none) w.put(kScale[index(s.qscale)]);
  if (s.paged_kv) w.put(kPaged);
  if (s.rope != RopeKind::none) w.put(kRope[index(s.rope)]);
  if (s.page_size != 1) {
    w.put("_ps=");
    w.number(s.page_size);
  }
  if (s.kv_layout != KvLayout::vectorized) w.put(kLayout[index(s.kv_layout)]);
  if (s.kv_lookup != KvLookup::sglang) w.put(kLookup[index(s.kv_lookup)]);
  if (s.deterministic) w.put(kDeterministic);
  if (s.dbias) w.put(kDbias);
  if (s.dropout_variant > DropoutVariant::no) w.put(kVariant[index(s.dropout_variant)]);
  w.put(kPerCu);
  w.signed_number(a.block_per_cu);
  return w.end();
}

Result<KernelConfig> parse_attention_name(std::string_view name) {
  Reader r(name);
  KernelConfig config{.origin = Origin::ck};
  AttentionSignature& s = config.signature.emplace<AttentionSignature>();
  Algorithm& a = config.algorithm;
  if (!r.take(kAttentionPrefix)) return r.expected("fmha_");
  if (!r.take_enum(s.family)) return r.expected("a kernel family such as fwd or bwd_dq_dk_dv");
  if (!r.take_enum(s.data_type)) return r.expected("a data type such as fp16");
  if (!r.take_enum(s.mode)) return r.expected("batch or group");
  if (!r.take("h") || !r.take_number(s.head_dim_qk)) return r.expected("h and the head dim");
  s.head_dim_v = s.head_dim_qk;
  if (r.take("x") && !r.take_number(s.head_dim_v)) return r.expected("the head dim of V");
  if (!r.take("_")) return r.expected("_ after the head dim");
  if (!r.take_enum(a.pipeline)) return r.expected("a pipeline such as qr_async");
  if (!r.take("t") || !r.take_numbers(a.tile, 6)) return r.expected("t and six tile figures joined by x");
  if (r.take(".") && !r.take_enum(a.tag)) return r.expected("a tile tag such as trload");
  r.take("_");
  if (!r.take("w") || !r.take_numbers(a.warp, 3)) return r.expected("w and three warp figures joined by x");
  if (!r.take("_pad") || r.rest().size() < 4) return r.expected("_pad and four digits");
  for (std::size_t i = 0; i < 4; ++i) {
    const char digit = r.rest()[i];
    if (digit != '0' && digit != '1' && digit != '8') return r.expected("pad digits 0, 1 or 8");
    a.pad[i] = static_cast<std::uint8_t>(digit - '0');
  }
  r.take(r.rest().substr(0, 4));
  if (!r.take("_mask=") || !r.take_enum(s.mask) || s.mask == MaskKind::causal)
    return r.expected("_mask= and no, top_left, bottom_right or generic");
  if (!r.take("bias=") || !r.take_enum(s.bias)) return r.expected("bias= and no, bias or alibi");
  const auto flag = [&r](std::string_view text) { return r.take(text); };
  s.lse = flag("lse=1_");
  s.dropout = flag("drop=1_");
  s.soft_cap = flag("logits=1_");
  s.sink = flag("sink=1_");
  s.skip_min_seqlen_q = flag("skip=1_");
  if (r.take("qs=") && !r.take_enum(s.qscale)) return r.expected("a quantisation scale");
  s.paged_kv = flag("pkv=1_");
  if (r.take("rope=") && !r.take_enum(s.rope)) return r.expected("interleaved or half_rotated");
  if (r.take("ps=") && (!r.take_number(s.page_size) || !r.take("_"))) return r.expected("a page size");
  if (r.take("kvl=") && !r.take_enum(s.kv_layout)) return r.expected("linear or vectorized");
  if (r.take("kvt=") && !r.take_enum(s.kv_lookup)) return r.expected("vllm or sglang");
  s.deterministic = flag("det=1_");
  s.dbias = flag("dbias=1_");
  if (s.family == AttentionFamily::bwd_dq_dk_dv) s.dropout_variant = DropoutVariant::no;
  if (r.take("drv=") && !r.take_enum(s.dropout_variant)) return r.expected("a dropout variant");
  if (!r.take("bpc=") || !r.take_number(a.block_per_cu))
    return r.expected("a feature in the grammar's order, or bpc= and a number");
  if (!r.done()) return r.expected("the end of the name");

  // Forward kernels lay their waves along m, and both products use one fragment; what backward kernels do stands in a
  // table.
  if (!is_backward(s.family)) {
    for (std::size_t i = 0; i < 3; ++i) a.warp[3 + i] = a.warp[i];
    if (a.warp[0] == 0) return fail(ErrorCode::parse, "kernel name: a warp tile of 0 rows", "w32x32x16");
    const auto waves = static_cast<std::uint16_t>(a.tile[0] / a.warp[0]);
    a.wave = {waves, 1, 1, waves, 1, 1, 1, 1, 1};
  }
  return config;
}

}  // namespace tilesmith::ck
