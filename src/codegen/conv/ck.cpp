// The words of grouped convolution's sources for Composable Kernel. A convolution is computed as a GEMM of matrices
// that are not there: forward X times W, backward data dY times W, backward weight dY times X.
#include <fmt/format.h>

#include "codegen/ck_words.hpp"
#include "instances/conv/ck.hpp"
#include "vocabulary/field_value.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

using Text = std::string;

const ConvSignature& signature(const KernelConfig& c) {
  return std::get<ConvSignature>(c.signature);
}
void flag(Text& out, bool value) {
  out += value ? "true" : "false";
}
void number(Text& out, long long value) {
  append_integer(out, value);
}

std::string_view element(DataType type) {
  return type == DataType::fp32 ? "float" : type == DataType::bf16 ? "ck_tile::bf16_t" : "ck_tile::half_t";
}

template <std::size_t kPlace>
void vector_width(Text& out, const KernelConfig& c, const AmdChip&) {
  number(out, c.algorithm.vector[kPlace]);
}
template <std::array<std::uint8_t, 2> ConvSignature::*kPair, std::size_t kPlace>
void pair(Text& out, const KernelConfig& c, const AmdChip&) {
  number(out, (signature(c).*kPair)[kPlace]);
}

/// The layout of a tensor: its letters, with one for each spatial dimension.
void layout(Text& out, const KernelConfig& c, std::string_view before, std::string_view spatial,
            std::string_view after) {
  out += "ck_tile::tensor_layout::convolution::";
  out += before;
  out += spatial.substr(spatial.size() - signature(c).spatial_dims);
  out += after;
}

void specialization(Text& out, const KernelConfig& c, const AmdChip&) {
  constexpr std::string_view kNames[] = {"Default", "Filter1x1Pad0", "Filter1x1Stride1Pad0", "Filter3x3"};
  out += "ck_tile::ConvolutionSpecialization::";
  out += kNames[static_cast<std::size_t>(signature(c).specialization)];
}

void gemm_layout(Text& out, bool by_rows) {
  out += "ck_tile::tensor_layout::gemm::";
  out += by_rows ? "RowMajor" : "ColumnMajor";
}

constexpr CkWord kWords[] = {
    {"tile", ck_triple<&Algorithm::tile>},
    {"waves", ck_triple<&Algorithm::wave>},
    {"warp", ck_triple<&Algorithm::warp>},
    {"tile_m", ck_figure<&Algorithm::tile, 0>},
    {"tile_n", ck_figure<&Algorithm::tile, 1>},
    {"waves_m", ck_figure<&Algorithm::wave, 0>},
    {"waves_n", ck_figure<&Algorithm::wave, 1>},
    {"warp_m", ck_figure<&Algorithm::warp, 0>},
    {"warp_n", ck_figure<&Algorithm::warp, 1>},
    {"warp_k", ck_figure<&Algorithm::warp, 2>},
    {"vector_a", vector_width<0>},
    {"vector_b", vector_width<1>},
    {"vector_c", vector_width<2>},
    {"dims", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, signature(c).spatial_dims); }},
    {"specialization", specialization},
    {"layout_x", [](Text& out, const KernelConfig& c, const AmdChip&) { layout(out, c, "N", "DHW", "GC"); }},
    {"layout_w", [](Text& out, const KernelConfig& c, const AmdChip&) { layout(out, c, "GK", "ZYX", "C"); }},
    {"layout_y", [](Text& out, const KernelConfig& c, const AmdChip&) { layout(out, c, "N", "DHW", "GK"); }},
    {"gemm_layout_a",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       const ConvDirection direction = signature(c).direction;
       gemm_layout(out, direction == ConvDirection::forward ? c.algorithm.groups_merged == 1
                                                            : direction == ConvDirection::backward_data);
     }},
    {"gemm_layout_b", [](Text& out, const KernelConfig& c,
                         const AmdChip&) { gemm_layout(out, signature(c).direction != ConvDirection::forward); }},
    {"groups_merged", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.groups_merged); }},
    {"split_image", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, signature(c).large_tensor); }},
    {"explicit_gemm", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, c.algorithm.explicit_gemm); }},
    {"double_buffer",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       flag(out, c.algorithm.double_buffer || c.algorithm.pipeline == Pipeline::compv4);
     }},
    {"persistent", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, c.algorithm.persistent); }},
    {"wave_groups", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.wave_groups); }},
    {"strategy",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       out += "ck_tile::StreamKReductionStrategy::";
       out += signature(c).stream_k_reduction == StreamKReduction::tree ? "Tree" : "Linear";
     }},
    {"scheduler",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       constexpr std::string_view kNames[] = {"Default", "Intrawave", "Interwave"};
       out += "ck_tile::GemmPipelineScheduler::";
       out += kNames[static_cast<std::size_t>(c.algorithm.scheduler)];
     }},
    {"filter_h", pair<&ConvSignature::filter, 0>},
    {"filter_w", pair<&ConvSignature::filter, 1>},
    {"stride_h", pair<&ConvSignature::stride, 0>},
    {"stride_w", pair<&ConvSignature::stride, 1>},
    {"pad_h", pair<&ConvSignature::padding, 0>},
    {"pad_w", pair<&ConvSignature::padding, 1>},
    {"images", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.images); }},
    {"subtile_h", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.subtile[0]); }},
    {"subtile_w", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.subtile[1]); }},
};

void write_types(Text& out, const KernelConfig& c) {
  out += "using Element = ";
  out += element(signature(c).data_type);
  out += ";\n";
}

void write_record(Text& out, const KernelConfig& c) {
  const ConvSignature& s = signature(c);
  const Algorithm& a = c.algorithm;
  const auto line = [&out](std::string_view field, const auto& value) {
    out += fmt::format("  r.{} = {};\n", field, value);
  };
  line("direction", fmt::format("ConvDirection::{}", name_of(s.direction)));
  line("type", fmt::format("ConvType::{}", name_of(s.data_type)));
  line("dims", s.spatial_dims);
  if (s.specialization != ConvSpecialization::none)
    line("filter", fmt::format("ConvFilter::{}", name_of(s.specialization)));
  if (a.groups_merged != 1) line("groups_merged", a.groups_merged);
  if (s.two_stage) line("two_stage", "true");
  if (s.stream_k_reduction != StreamKReduction::none) line("stream_k", "true");
  if (s.depthwise) {
    line("depthwise", "true");
    line("filter_size", s.filter[0]);
    line("stride_h", s.stride[0]);
    line("stride_w", s.stride[1]);
    line("pad", s.padding[0]);
    line("images", a.images);
  }
  constexpr std::string_view kSides[] = {"tile_m", "tile_n", "tile_k"};
  for (std::size_t i = 0; i < 3; ++i)
    if (a.tile[i] != 0) line(kSides[i], a.tile[i]);
}

Status accepts(const KernelConfig& c, const AmdChip& chip) {
  const auto& spec = amd_conv_spec();
  if (!spec) return std::unexpected(spec.error());
  const auto& gemm = amd_gemm_spec();
  if (!gemm) return std::unexpected(gemm.error());
  const AmdConvSubject subject{c, chip, *spec, *gemm};
  if (const auto* rule = first_refusal(amd_conv_sound_rules(), subject))
    return fail(ErrorCode::unsupported, fmt::format("{}: rule {}: {}", ck_name(c), rule->name, rule->figures(subject)),
                std::string(rule->about));
  return {};
}

/// The family of the facts.
std::string_view family(const KernelConfig& c) {
  const ConvSignature& s = signature(c);
  if (s.depthwise) return "depthwise";
  switch (s.direction) {
    case ConvDirection::forward:
      return "fwd";
    case ConvDirection::backward_data:
      return "bwd_data";
    case ConvDirection::backward_weight:
      return s.stream_k_reduction != StreamKReduction::none ? "bwd_weight.stream_k"
             : s.two_stage                                  ? "bwd_weight.two_stage"
                                                            : "bwd_weight";
  }
  return {};
}

std::string launch(std::string_view family) {
  const std::string call = family == "bwd_weight.stream_k" ? "launch_conv_stream_k<Kernel>"
                           : family == "bwd_weight.two_stage"
                               ? "launch_conv_two_stage<Kernel, Convert, Element, kConvertTile>"
                               : "launch_conv<Kernel, kRecord.direction, Element>";
  // The conversion to the type of the filters is Composable Kernel's own element-wise kernel.
  const std::string_view convert =
      family != "bwd_weight.two_stage"
          ? ""
          : "constexpr int kConvertTile = 2048;\n"
            "using Convert = ck_tile::ElementWiseKernel<\n"
            "    ck_tile::ElementWisePipelineProblem<\n"
            "        float, float, Element,\n"
            "        ck_tile::ElementWiseShape<ck_tile::sequence<8>, ck_tile::sequence<kConvertTile>,\n"
            "                                  ck_tile::sequence<64>, float>,\n"
            "        ck_tile::element_wise::UnaryConvert>,\n"
            "    ck_tile::ElementWiseDefaultPolicy>;\n";
  return fmt::format(
      "constexpr auto make_launch = [](auto kernel, dim3 grid, dim3 block, auto... arguments) {{\n"
      "  return ck_tile::make_kernel<BOUNDS>(kernel, grid, block, 0, arguments...);\n"
      "}};\n"
      "{}"
      "template <class Kernel>\n"
      "float enqueue(const ConvArguments& a, const ck_tile::stream_config& stream) {{\n"
      "  return {}(a, stream, make_launch);\n}}\n\n",
      convert, call);
}

}  // namespace

const CkOperation& ck_conv_operation() {
  static constexpr CkOperation kOperation{
      .words = kWords,
      .header = "conv_launch.h",
      .dispatch_header = "conv.h",
      .arguments = "ConvArguments",
      .record = "ConvRecord",
      .instance = "ConvInstance",
      .launch = launch,
      // As upstream: two blocks on a compute unit where a pipeline has one buffer of local memory.
      .min_blocks = [](Pipeline pipeline) { return pipeline == Pipeline::compv4 ? 1 : 2; },
      .workspace =
          [](std::string_view family) {
            return std::string(family == "bwd_weight.stream_k"    ? "stream_k_workspace<Kernel>(a)"
                               : family == "bwd_weight.two_stage" ? "two_stage_workspace<Kernel>(a)"
                                                                  : "");
          },
      .family = family,
      .needs = [](const KernelConfig&) { return CkTraits{0}; },
      .trait_name = [](CkTraits) { return std::string_view(); },
      .write_types = write_types,
      .write_record = write_record,
      .accepts = accepts,
  };
  return kOperation;
}

}  // namespace tilesmith
