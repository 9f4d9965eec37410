// Signature: what a kernel computes. One struct per operation, every field a typed value; how it is computed is in
// algorithm.hpp.
//
// Each struct lists its fields once, in `fields`. Identity, JSON, filters and CSV columns are all derived from that
// list (field_value.hpp), so a field cannot be forgotten in one of them.
#pragma once

#include <cstdint>
#include <variant>

#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// Attention: forward and backward, all nine kernel families.
struct AttentionSignature {
  AttentionFamily family = AttentionFamily::fwd;
  DataType data_type = DataType::fp16;
  SequenceMode mode = SequenceMode::batch;
  MatrixOrder v_layout = MatrixOrder::row;
  std::uint16_t head_dim_qk = 128;  ///< 0: any, as of v (CPU, generic)
  std::uint16_t head_dim_v = 128;
  MaskKind mask = MaskKind::none;
  BiasKind bias = BiasKind::none;
  bool lse = false;  ///< writes the log-sum-exp of each row
  bool dropout = false;
  bool soft_cap = false;
  bool sink = false;               ///< an extra logit per head joins the softmax's sum
  bool negative_scale = false;     ///< the logits' scale is below zero: for kernels whose softmax holds the scale
  bool unaligned = false;          ///< NVIDIA: rows may begin at any element; others ask for multiples of 16 bytes
  bool skip_min_seqlen_q = false;  ///< group mode: sequences shorter than a minimum are skipped
  QuantScale qscale = QuantScale::none;
  bool paged_kv = false;
  KvElements cache = KvElements::as_queries;  ///< own kernels: elements of keys and values
  bool latent = false;                        ///< NVIDIA: values are the first elements of the keys
  std::uint16_t page_size = 1;
  KvLayout kv_layout = KvLayout::vectorized;
  KvLookup kv_lookup = KvLookup::sglang;
  RopeKind rope = RopeKind::none;
  bool deterministic = false;  ///< backward: no atomics
  bool dbias = false;          ///< backward: writes the gradient of the bias
  DropoutVariant dropout_variant = DropoutVariant::unset;

  friend bool operator==(const AttentionSignature&, const AttentionSignature&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("family", self.family);
    visit("data_type", self.data_type);
    visit("mode", self.mode);
    visit("v_layout", self.v_layout);
    visit("head_dim_qk", self.head_dim_qk);
    visit("head_dim_v", self.head_dim_v);
    visit("mask", self.mask);
    visit("bias", self.bias);
    visit("lse", self.lse);
    visit("dropout", self.dropout);
    visit("soft_cap", self.soft_cap);
    visit("sink", self.sink);
    visit("negative_scale", self.negative_scale);
    visit("unaligned", self.unaligned);
    visit("skip_min_seqlen_q", self.skip_min_seqlen_q);
    visit("qscale", self.qscale);
    visit("paged_kv", self.paged_kv);
    visit("cache", self.cache);
    visit("latent", self.latent);
    visit("page_size", self.page_size);
    visit("kv_layout", self.kv_layout);
    visit("kv_lookup", self.kv_lookup);
    visit("rope", self.rope);
    visit("deterministic", self.deterministic);
    visit("dbias", self.dbias);
    visit("dropout_variant", self.dropout_variant);
  }
};

/// GEMM: D = epilogue(alpha * op(A) x op(B) + beta * C). `c` is the type of the result, as Composable Kernel counts.
struct GemmSignature {
  GemmFamily family = GemmFamily::standard;
  DataType a = DataType::fp16;
  DataType b = DataType::fp16;
  DataType c = DataType::fp16;
  DataType accumulator = DataType::fp32;
  DataType aux = DataType::fp16;    ///< native kernels: of C and of the tensors that add and multiply read
  DataType bias = DataType::fp16;   ///< native kernels
  DataType scale = DataType::fp16;  ///< native kernels: of integer weights' scales
  bool zero_points = false;         ///< native kernels: of integer weights
  GemmGrouping grouping = GemmGrouping::none;
  bool mm_plus_mm = false;  ///< native kernels: A2 x B2 is added to A x B before the epilogue
  MatrixOrder layout_a = MatrixOrder::row;
  MatrixOrder layout_b = MatrixOrder::column;
  MatrixOrder layout_c = MatrixOrder::row;
  MatrixOrder layout_d = MatrixOrder::row;
  std::uint8_t num_d = 0;  ///< extra tensors the element-wise operation reads
  ElementwiseKind elementwise = ElementwiseKind::pass_through;
  StreamKReduction stream_k_reduction = StreamKReduction::none;
  QuantScale qscale = QuantScale::none;
  std::uint8_t k_batch = 1;
  bool structured_sparsity = false;
  GemmEpilogue epilogue_ops{};  ///< native kernels: the operations of the epilogue

  friend bool operator==(const GemmSignature&, const GemmSignature&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("family", self.family);
    visit("a", self.a);
    visit("b", self.b);
    visit("c", self.c);
    visit("accumulator", self.accumulator);
    visit("aux", self.aux);
    visit("bias", self.bias);
    visit("scale", self.scale);
    visit("zero_points", self.zero_points);
    visit("grouping", self.grouping);
    visit("mm_plus_mm", self.mm_plus_mm);
    visit("layout_a", self.layout_a);
    visit("layout_b", self.layout_b);
    visit("layout_c", self.layout_c);
    visit("layout_d", self.layout_d);
    visit("num_d", self.num_d);
    visit("elementwise", self.elementwise);
    visit("stream_k_reduction", self.stream_k_reduction);
    visit("qscale", self.qscale);
    visit("k_batch", self.k_batch);
    visit("structured_sparsity", self.structured_sparsity);
    visit("epilogue_ops", self.epilogue_ops);
  }
};

/// Grouped convolution in one to three spatial dimensions, channels last.
struct ConvSignature {
  ConvDirection direction = ConvDirection::forward;
  DataType data_type = DataType::fp16;
  DataType accumulator = DataType::fp32;
  std::uint8_t spatial_dims = 2;
  bool depthwise = false;
  ConvSpecialization specialization = ConvSpecialization::none;
  StreamKReduction stream_k_reduction = StreamKReduction::none;
  bool two_stage = false;                 ///< backward weight: fp32 workspace, then a conversion
  bool large_tensor = false;              ///< the image is split so that offsets fit 32 bits
  std::array<std::uint8_t, 2> filter{};   ///< depthwise: filter height, width
  std::array<std::uint8_t, 2> stride{};   ///< depthwise
  std::array<std::uint8_t, 2> padding{};  ///< depthwise
  DataType type_out = DataType::fp16;     ///< NVIDIA: of the result and of the tensors that add and multiply read
  DataType type_bias = DataType::fp16;    ///< NVIDIA
  GemmEpilogue epilogue_ops{};            ///< NVIDIA; the CPU's kernels read theirs from the arguments

  friend bool operator==(const ConvSignature&, const ConvSignature&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("direction", self.direction);
    visit("data_type", self.data_type);
    visit("accumulator", self.accumulator);
    visit("spatial_dims", self.spatial_dims);
    visit("depthwise", self.depthwise);
    visit("specialization", self.specialization);
    visit("stream_k_reduction", self.stream_k_reduction);
    visit("two_stage", self.two_stage);
    visit("large_tensor", self.large_tensor);
    visit("filter", self.filter);
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("type_out", self.type_out);
    visit("type_bias", self.type_bias);
    visit("epilogue_ops", self.epilogue_ops);
  }
};

using Signature = std::variant<AttentionSignature, GemmSignature, ConvSignature>;

/// The operation a signature belongs to.
enum class Operation : std::uint8_t { attention, gemm, conv };

template <>
struct EnumTable<Operation> {
  static constexpr std::string_view kWhat = "operation";
  static constexpr auto kNames = enum_names<Operation>(
      {{Operation::attention, "attention"}, {Operation::gemm, "gemm"}, {Operation::conv, "conv"}});
};

[[nodiscard]] constexpr Operation operation_of(const Signature& signature) {
  return static_cast<Operation>(signature.index());
}

}  // namespace tilesmith
