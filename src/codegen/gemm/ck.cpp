// The words of GEMM's sources for Composable Kernel: one launch of a GEMM, or of a list.
#include <fmt/format.h>

#include "codegen/ck_words.hpp"
#include "instances/gemm/ck.hpp"
#include "vocabulary/field_value.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

using Text = std::string;

const GemmSignature& signature(const KernelConfig& c) {
  return std::get<GemmSignature>(c.signature);
}
void flag(Text& out, bool value) {
  out += value ? "true" : "false";
}
void number(Text& out, long long value) {
  append_integer(out, value);
}

std::string_view type_of(DataType type) {
  switch (type) {
    case DataType::fp64:
      return "double";
    case DataType::fp32:
      return "float";
    case DataType::bf16:
      return "ck_tile::bf16_t";
    case DataType::fp8:
      return "ck_tile::fp8_t";
    case DataType::bf8:
      return "ck_tile::bf8_t";
    case DataType::int8:
      return "ck_tile::int8_t";
    case DataType::int32:
      return "ck_tile::int32_t";
    default:
      return "ck_tile::half_t";
  }
}
bool has_type(DataType type) {
  return type == DataType::fp16 || type_of(type) != "ck_tile::half_t";
}

void layout(Text& out, MatrixOrder order) {
  out += "ck_tile::tensor_layout::gemm::";
  out += order == MatrixOrder::row ? "RowMajor" : "ColumnMajor";
}

template <std::size_t kPlace>
void pad(Text& out, const KernelConfig& c, const AmdChip&) {
  flag(out, c.algorithm.pad[kPlace] != 0);
}
template <DataType GemmSignature::*kType>
void type(Text& out, const KernelConfig& c, const AmdChip&) {
  out += type_of(signature(c).*kType);
}
template <MatrixOrder GemmSignature::*kOrder>
void order(Text& out, const KernelConfig& c, const AmdChip&) {
  layout(out, signature(c).*kOrder);
}
/// ck_tile::tuple of one entry for each D.
template <class Append>
void tuple_of_ds(Text& out, const KernelConfig& c, Append&& append) {
  out += "ck_tile::tuple<";
  for (int i = 0; i < signature(c).num_d; ++i) {
    if (i > 0) out += ", ";
    append();
  }
  out += '>';
}

/// The pipelines with two buffers of local memory compute nothing right with one.
bool is_double_buffered(const KernelConfig& c) {
  return c.algorithm.double_buffer || c.algorithm.pipeline == Pipeline::compv4 ||
         c.algorithm.pipeline == Pipeline::preshufflev2;
}

std::string_view elementwise_of(ElementwiseKind kind) {
  switch (kind) {
    case ElementwiseKind::pass_through:
      return "PassThrough";
    case ElementwiseKind::multi_d_add:
      return "MultiDAdd";
    case ElementwiseKind::multi_d_multiply:
      return "MultiDMultiply";
    default:
      return {};
  }
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
    {"pad_m", pad<0>},
    {"pad_n", pad<1>},
    {"pad_k", pad<2>},
    {"double_buffer", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, is_double_buffered(c)); }},
    {"layout_a", order<&GemmSignature::layout_a>},
    {"layout_b", order<&GemmSignature::layout_b>},
    {"layout_c", order<&GemmSignature::layout_c>},
    {"layouts_of_ds", [](Text& out, const KernelConfig& c,
                         const AmdChip&) { tuple_of_ds(out, c, [&] { layout(out, signature(c).layout_d); }); }},
    {"type_a", type<&GemmSignature::a>},
    {"type_b", type<&GemmSignature::b>},
    {"type_c", type<&GemmSignature::c>},
    {"type_acc", type<&GemmSignature::accumulator>},
    {"types_of_ds", [](Text& out, const KernelConfig& c,
                       const AmdChip&) { tuple_of_ds(out, c, [&] { out += type_of(signature(c).c); }); }},
    {"transpose_c", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, c.algorithm.transpose_c); }},
    {"persistent", [](Text& out, const KernelConfig& c, const AmdChip&) { flag(out, c.algorithm.persistent); }},
    {"preshuffle", [](Text& out, const KernelConfig& c,
                      const AmdChip&) { flag(out, signature(c).family == GemmFamily::preshuffle); }},
    {"wave_groups", [](Text& out, const KernelConfig& c, const AmdChip&) { number(out, c.algorithm.wave_groups); }},
    {"strategy",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       constexpr std::string_view kNames[] = {"", "Atomic", "Linear", "Tree"};
       out += "ck_tile::StreamKReductionStrategy::";
       out += kNames[static_cast<std::size_t>(signature(c).stream_k_reduction)];
     }},
    {"scheduler",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       constexpr std::string_view kNames[] = {"Default", "Intrawave", "Interwave"};
       out += "ck_tile::GemmPipelineScheduler::";
       out += kNames[static_cast<std::size_t>(c.algorithm.scheduler)];
     }},
    {"elementwise",
     [](Text& out, const KernelConfig& c, const AmdChip&) {
       out += "ck_tile::element_wise::";
       out += elementwise_of(signature(c).elementwise);
     }},
};

void write_record(Text& out, const KernelConfig& c) {
  const GemmSignature& g = signature(c);
  const Algorithm& a = c.algorithm;
  const auto line = [&out](std::string_view field, std::string_view value) {
    out += fmt::format("  r.{} = {};\n", field, value);
  };
  line("a", fmt::format("GemmType::{}", name_of(g.a)));
  line("b", fmt::format("GemmType::{}", name_of(g.b)));
  line("c", fmt::format("GemmType::{}", name_of(g.c)));
  line("c_bytes", fmt::format("{}", bits_of(g.c) / 8));
  constexpr std::string_view kSides[] = {"tile_m", "tile_n", "tile_k"};
  for (std::size_t i = 0; i < 3; ++i) line(kSides[i], fmt::format("{}", a.tile[i]));
  const std::tuple<bool, std::string_view, std::string_view> flags[] = {
      {g.layout_a == MatrixOrder::column, "a_by_rows", "false"},
      {g.layout_b == MatrixOrder::row, "b_by_rows", "true"},
      {g.layout_c == MatrixOrder::column, "c_by_rows", "false"},
      {g.num_d > 0 && g.layout_d == MatrixOrder::column, "d_by_rows", "false"},
      {a.pad[0] != 0, "pad_m", "true"},
      {a.pad[1] != 0, "pad_n", "true"},
      {a.pad[2] != 0, "pad_k", "true"},
      {a.persistent, "persistent", "true"},
      {g.family == GemmFamily::preshuffle, "preshuffle", "true"},
  };
  for (const auto& [on, field, value] : flags)
    if (on) line(field, value);
  if (g.family == GemmFamily::stream_k) line("stream_k", fmt::format("StreamK::{}", name_of(g.stream_k_reduction)));
  if (g.family == GemmFamily::grouped_gemm) line("grouped", "true");
  if (g.num_d > 0) line("num_d", fmt::format("{}", g.num_d));
  if (g.elementwise == ElementwiseKind::multi_d_add) line("elementwise", "Elementwise::multi_d_add");
  if (g.elementwise == ElementwiseKind::multi_d_multiply) line("elementwise", "Elementwise::multi_d_multiply");
}

Status accepts(const KernelConfig& c, const AmdChip& chip) {
  const auto& spec = amd_gemm_spec();
  if (!spec) return std::unexpected(spec.error());
  const auto refuse = [&](std::string why, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("{}: {}", ck_name(c), why), std::move(hint));
  };
  const GemmSignature& g = signature(c);
  const AmdGemmSubject subject{c, chip, *spec};
  if (const auto* rule = first_refusal(amd_gemm_sound_rules(), subject))
    return refuse(fmt::format("rule {}: {}", rule->name, rule->figures(subject)), std::string(rule->about));
  if (!has_type(g.a) || !has_type(g.b) || !has_type(g.c))
    return refuse("rule type_is_written: sources of this data type are not written",
                  "fp16, bf16, fp8, bf8, int8, fp32");
  if (elementwise_of(g.elementwise).empty())
    return refuse("rule operation_is_written: sources of this operation are not written",
                  "PassThrough, MultiDAdd or MultiDMultiply");
  if (g.num_d > 4) return refuse("rule tensors_are_few: more than four tensors beside the product", "at most four");
  return {};
}

/// The family of the facts: the epilogue has its own templates.
std::string_view family(const KernelConfig& c) {
  const bool shuffled = c.algorithm.epilogue == Epilogue::cshuffle;
  switch (signature(c).family) {
    case GemmFamily::standard:
      return shuffled ? "standard.cshuffle" : "standard.default";
    case GemmFamily::preshuffle:
      return shuffled ? "preshuffle.cshuffle" : "preshuffle.default";
    case GemmFamily::multi_d:
      return shuffled ? "multi_d.cshuffle" : "multi_d.default";
    case GemmFamily::grouped_gemm:
      return shuffled ? "grouped.cshuffle" : "grouped.default";
    default:
      return name_of(signature(c).family);
  }
}

constexpr std::string_view kMakeLaunch =
    "constexpr auto make_launch = [](auto kernel, dim3 grid, dim3 block, auto... arguments) {\n"
    "  return ck_tile::make_kernel<BOUNDS>(kernel, grid, block, 0, arguments...);\n"
    "};\n"
    "template <class Kernel>\n"
    "float enqueue(const GemmArguments& a, const ck_tile::stream_config& stream) {\n";

std::string launch(std::string_view family) {
  if (family == "stream_k")
    return fmt::format(
        "{}{}", kMakeLaunch,
        "  const std::size_t bytes_of_c = std::size_t(kRecord.c_by_rows ? a.m : a.n) * a.stride_c *\n"
        "                                 kRecord.c_bytes;\n"
        "  return launch_stream_k<Kernel, kRecord.stream_k>(a, stream, bytes_of_c, make_launch);\n}\n\n");
  if (family.starts_with("grouped."))
    return fmt::format(
        "{}{}", kMakeLaunch,
        "  const auto bytes_of_c = [](const GemmGroup& g) {\n"
        "    return std::size_t(kRecord.c_by_rows ? g.m : g.n) * g.stride_c * kRecord.c_bytes;\n"
        "  };\n"
        "  return launch_grouped<Kernel, kRecord.persistent>(a, stream, bytes_of_c, make_launch);\n}\n\n");
  return "template <class Kernel>\n"
         "float enqueue(const GemmArguments& a, const ck_tile::stream_config& stream) {\n"
         "  const std::size_t bytes_of_c = std::size_t(kRecord.c_by_rows ? a.m : a.n) * a.stride_c *\n"
         "                                 kRecord.c_bytes;\n"
         "  return launch_gemm<Kernel, kRecord.num_d, kRecord.persistent>(\n"
         "      a, stream, bytes_of_c, [](dim3 grid, auto kernel_arguments) {\n"
         "        return ck_tile::make_kernel<BOUNDS>(\n"
         "            Kernel{}, grid, Kernel::BlockSize(), 0, kernel_arguments);\n"
         "      });\n"
         "}\n\n";
}

}  // namespace

const CkOperation& ck_gemm_operation() {
  static constexpr CkOperation kOperation{
      .words = kWords,
      .header = "gemm_launch.h",
      .dispatch_header = "gemm.h",
      .arguments = "GemmArguments",
      .record = "GemmRecord",
      .instance = "GemmInstance",
      .launch = launch,
      .min_blocks = [](Pipeline) { return 1; },
      .workspace =
          [](std::string_view family) {
            return std::string(family == "stream_k"             ? "stream_k_workspace<Kernel>(a)"
                               : family.starts_with("grouped.") ? "grouped_workspace<Kernel>(a)"
                                                                : "");
          },
      .family = family,
      .needs = [](const KernelConfig&) { return CkTraits{0}; },
      .trait_name = [](CkTraits) { return std::string_view(); },
      .write_types = [](std::string&, const KernelConfig&) {},
      .write_record = write_record,
      .accepts = accepts,
  };
  return kOperation;
}

}  // namespace tilesmith
