// The compile-time features ("traits") a signature is made of, each an enum with its one table of names. Names that
// Composable Kernel prints in kernel names are spelled as there.
#pragma once

#include <array>
#include <cstdint>

#include "tilesmith/gemm_epilogue.hpp"
#include "tilesmith/types.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

enum class AttentionFamily : std::uint8_t {
  fwd,
  fwd_splitkv,
  fwd_splitkv_combine,
  fwd_pagedkv,
  fwd_appendkv,
  batch_prefill,
  bwd_dot_do_o,
  bwd_dq_dk_dv,
  bwd_convert_dq,
  bwd_dbias,
};
template <>
struct EnumTable<AttentionFamily> {
  static constexpr std::string_view kWhat = "attention family";
  static constexpr auto kNames =
      enum_names<AttentionFamily>({{AttentionFamily::fwd, "fwd"},
                                   {AttentionFamily::fwd_splitkv, "fwd_splitkv"},
                                   {AttentionFamily::fwd_splitkv_combine, "fwd_splitkv_combine"},
                                   {AttentionFamily::fwd_pagedkv, "fwd_pagedkv"},
                                   {AttentionFamily::fwd_appendkv, "fwd_appendkv"},
                                   {AttentionFamily::batch_prefill, "batch_prefill"},
                                   {AttentionFamily::bwd_dot_do_o, "bwd_dot_do_o"},
                                   {AttentionFamily::bwd_dq_dk_dv, "bwd_dq_dk_dv"},
                                   {AttentionFamily::bwd_convert_dq, "bwd_convert_dq"},
                                   {AttentionFamily::bwd_dbias, "bwd_dbias"}});
};

template <>
struct EnumTable<KvElements> {
  static constexpr std::string_view kWhat = "cache elements";
  static constexpr auto kNames = enum_names<KvElements>(
      {{KvElements::as_queries, "as_queries"}, {KvElements::fp8, "fp8"}, {KvElements::int8, "int8"}});
};

template <>
struct EnumTable<SequenceMode> {
  static constexpr std::string_view kWhat = "mode";
  static constexpr auto kNames =
      enum_names<SequenceMode>({{SequenceMode::batch, "batch"}, {SequenceMode::group, "group"}});
};

template <>
struct EnumTable<MaskKind> {
  static constexpr std::string_view kWhat = "mask";
  static constexpr auto kNames = enum_names<MaskKind>({{MaskKind::none, "no"},
                                                       {MaskKind::top_left, "top_left"},
                                                       {MaskKind::bottom_right, "bottom_right"},
                                                       {MaskKind::generic, "generic"},
                                                       {MaskKind::causal, "causal"}});
  static constexpr EnumName<MaskKind> kAliases[] = {{MaskKind::none, "none"}, {MaskKind::none, "no_mask"}};
};

template <>
struct EnumTable<BiasKind> {
  static constexpr std::string_view kWhat = "bias";
  static constexpr auto kNames =
      enum_names<BiasKind>({{BiasKind::none, "no"}, {BiasKind::elementwise, "bias"}, {BiasKind::alibi, "alibi"}});
  static constexpr EnumName<BiasKind> kAliases[] = {{BiasKind::none, "none"}, {BiasKind::elementwise, "elementwise"}};
};

enum class QuantScale : std::uint8_t { none, pertensor, blockscale, kv_blockscale };
template <>
struct EnumTable<QuantScale> {
  static constexpr std::string_view kWhat = "quantisation scale";
  static constexpr auto kNames = enum_names<QuantScale>({{QuantScale::none, "no"},
                                                         {QuantScale::pertensor, "pertensor"},
                                                         {QuantScale::blockscale, "blockscale"},
                                                         {QuantScale::kv_blockscale, "kv_blockscale"}});
  static constexpr EnumName<QuantScale> kAliases[] = {{QuantScale::none, "none"}};
};

template <>
struct EnumTable<GemmGrouping> {
  static constexpr std::string_view kWhat = "grouping";
  static constexpr auto kNames = enum_names<GemmGrouping>(
      {{GemmGrouping::none, "none"}, {GemmGrouping::contiguous, "contiguous"}, {GemmGrouping::masked, "masked"}});
};

template <>
struct EnumTable<Determinism> {
  static constexpr std::string_view kWhat = "determinism";
  static constexpr auto kNames =
      enum_names<Determinism>({{Determinism::bitwise, "bitwise"}, {Determinism::tolerant, "tolerant"}});
};

enum class KvLayout : std::uint8_t { vectorized, linear };
template <>
struct EnumTable<KvLayout> {
  static constexpr std::string_view kWhat = "key/value layout";
  static constexpr auto kNames =
      enum_names<KvLayout>({{KvLayout::vectorized, "vectorized"}, {KvLayout::linear, "linear"}});
};

enum class KvLookup : std::uint8_t { sglang, vllm };
template <>
struct EnumTable<KvLookup> {
  static constexpr std::string_view kWhat = "page lookup table";
  static constexpr auto kNames = enum_names<KvLookup>({{KvLookup::sglang, "sglang"}, {KvLookup::vllm, "vllm"}});
};

enum class RopeKind : std::uint8_t { none, interleaved, half_rotated };
template <>
struct EnumTable<RopeKind> {
  static constexpr std::string_view kWhat = "rotary embedding";
  static constexpr auto kNames = enum_names<RopeKind>(
      {{RopeKind::none, "none"}, {RopeKind::interleaved, "interleaved"}, {RopeKind::half_rotated, "half_rotated"}});
  static constexpr EnumName<RopeKind> kAliases[] = {
      {RopeKind::none, "no"}, {RopeKind::interleaved, "inter"}, {RopeKind::half_rotated, "half"}};
};

enum class DropoutVariant : std::uint8_t { unset, no, wg16, wg16_storerandval, p, rp };
template <>
struct EnumTable<DropoutVariant> {
  static constexpr std::string_view kWhat = "dropout variant";
  static constexpr auto kNames =
      enum_names<DropoutVariant>({{DropoutVariant::unset, "unset"},
                                  {DropoutVariant::no, "no"},
                                  {DropoutVariant::wg16, "dropout_wg16"},
                                  {DropoutVariant::wg16_storerandval, "dropout_wg16_storerandval"},
                                  {DropoutVariant::p, "p"},
                                  {DropoutVariant::rp, "rp"}});
};

template <>
struct EnumTable<MatrixOrder> {
  static constexpr std::string_view kWhat = "matrix order";
  static constexpr auto kNames = enum_names<MatrixOrder>({{MatrixOrder::row, "r"}, {MatrixOrder::column, "c"}});
  static constexpr EnumName<MatrixOrder> kAliases[] = {{MatrixOrder::row, "row"}, {MatrixOrder::column, "column"}};
};

enum class GemmFamily : std::uint8_t { standard, preshuffle, multi_d, stream_k, grouped_gemm, split_k, skinny };
template <>
struct EnumTable<GemmFamily> {
  static constexpr std::string_view kWhat = "GEMM family";
  static constexpr auto kNames = enum_names<GemmFamily>({{GemmFamily::standard, "standard"},
                                                         {GemmFamily::preshuffle, "preshuffle"},
                                                         {GemmFamily::multi_d, "multi_d"},
                                                         {GemmFamily::stream_k, "stream_k"},
                                                         {GemmFamily::grouped_gemm, "grouped"},
                                                         {GemmFamily::split_k, "split_k"},
                                                         {GemmFamily::skinny, "skinny"}});
};

enum class ElementwiseKind : std::uint8_t {
  pass_through,
  add,
  multiply,
  multi_d_add,
  multi_d_multiply,
  relu,
  gelu,
  fast_gelu,
  clamp,
  sigmoid,
  tanh,
  swish,
  hard_swish,
  add_scale,
};
template <>
struct EnumTable<ElementwiseKind> {
  static constexpr std::string_view kWhat = "element-wise operation";
  static constexpr auto kNames = enum_names<ElementwiseKind>({{ElementwiseKind::pass_through, "PassThrough"},
                                                              {ElementwiseKind::add, "Add"},
                                                              {ElementwiseKind::multiply, "Multiply"},
                                                              {ElementwiseKind::multi_d_add, "MultiDAdd"},
                                                              {ElementwiseKind::multi_d_multiply, "MultiDMultiply"},
                                                              {ElementwiseKind::relu, "Relu"},
                                                              {ElementwiseKind::gelu, "Gelu"},
                                                              {ElementwiseKind::fast_gelu, "FastGelu"},
                                                              {ElementwiseKind::clamp, "Clamp"},
                                                              {ElementwiseKind::sigmoid, "Sigmoid"},
                                                              {ElementwiseKind::tanh, "Tanh"},
                                                              {ElementwiseKind::swish, "Swish"},
                                                              {ElementwiseKind::hard_swish, "HardSwish"},
                                                              {ElementwiseKind::add_scale, "AddScale"}});
};

template <>
struct EnumTable<EpilogueOp> {
  static constexpr std::string_view kWhat = "epilogue operation";
  static constexpr auto kNames = enum_names<EpilogueOp>(
      {{EpilogueOp::none, "none"},           {EpilogueOp::bias, "bias"},       {EpilogueOp::bias_m, "bias_m"},
       {EpilogueOp::scale_n, "scale_n"},     {EpilogueOp::scale_m, "scale_m"}, {EpilogueOp::add, "add"},
       {EpilogueOp::multiply, "multiply"},   {EpilogueOp::relu, "relu"},       {EpilogueOp::gelu, "gelu"},
       {EpilogueOp::gelu_tanh, "gelu_tanh"}, {EpilogueOp::silu, "silu"},       {EpilogueOp::sigmoid, "sigmoid"},
       {EpilogueOp::tanh, "tanh"},           {EpilogueOp::clamp, "clamp"},     {EpilogueOp::glu, "glu"},
       {EpilogueOp::reglu, "reglu"},         {EpilogueOp::geglu, "geglu"},     {EpilogueOp::geglu_tanh, "geglu_tanh"},
       {EpilogueOp::swiglu, "swiglu"},       {EpilogueOp::amax, "amax"}});
  static constexpr EnumName<EpilogueOp> kAliases[] = {
      {EpilogueOp::bias, "bias_n"}, {EpilogueOp::silu, "swish"}, {EpilogueOp::multiply, "mul"}};
};

enum class StreamKReduction : std::uint8_t { none, atomic, linear, tree };
template <>
struct EnumTable<StreamKReduction> {
  static constexpr std::string_view kWhat = "stream-K reduction";
  static constexpr auto kNames = enum_names<StreamKReduction>({{StreamKReduction::none, "none"},
                                                               {StreamKReduction::atomic, "atomic"},
                                                               {StreamKReduction::linear, "linear"},
                                                               {StreamKReduction::tree, "tree"}});
};

template <>
struct EnumTable<ConvDirection> {
  static constexpr std::string_view kWhat = "convolution direction";
  static constexpr auto kNames = enum_names<ConvDirection>({{ConvDirection::forward, "fwd"},
                                                            {ConvDirection::backward_data, "bwd_data"},
                                                            {ConvDirection::backward_weight, "bwd_weight"}});
  static constexpr EnumName<ConvDirection> kAliases[] = {{ConvDirection::forward, "forward"},
                                                         {ConvDirection::backward_data, "backward_data"},
                                                         {ConvDirection::backward_weight, "backward_weight"}};
};

enum class ConvSpecialization : std::uint8_t { none, filter1x1_pad0, filter1x1_stride1_pad0, filter3x3 };
template <>
struct EnumTable<ConvSpecialization> {
  static constexpr std::string_view kWhat = "convolution specialisation";
  static constexpr auto kNames =
      enum_names<ConvSpecialization>({{ConvSpecialization::none, "none"},
                                      {ConvSpecialization::filter1x1_pad0, "filter1x1_pad0"},
                                      {ConvSpecialization::filter1x1_stride1_pad0, "filter1x1_stride1_pad0"},
                                      {ConvSpecialization::filter3x3, "filter3x3"}});
};

}  // namespace tilesmith
