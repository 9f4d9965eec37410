// The options of convolution problems, and what is usual where they are not given.
#include <algorithm>

#include "problem/clamp_option.hpp"
#include "problem/option_table.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

using ConvCall = RandomCall<Conv>;
using Coordinate = std::int64_t ConvProblem::*;

/// An option that joins the three coordinates of a size: H,W sets the inner two.
ProblemOption<Conv> spatial_option(const std::string& name, std::string about, const std::string& field,
                                   std::array<Coordinate, 3> coordinates, std::int64_t absent) {
  return {.names = {name},
          .about = std::move(about),
          .form = OptionForm::list,
          .fields = {field + "_d", field + "_h", field + "_w"},
          .text = [coordinates, absent](const ConvCall& call) -> std::optional<std::string> {
            std::string text;
            for (const Coordinate each : coordinates)
              if (!text.empty() || call.problem.*each != absent || each == coordinates.back())
                text += (text.empty() ? "" : ",") + text_of_value(call.problem.*each);
            return text;
          },
          .read = [name, coordinates](ConvCall& call, std::string_view text) -> Status {
            std::vector<std::int64_t> sizes;
            TS_TRY(read_value_text(name, text, sizes));
            if (sizes.empty() || sizes.size() > 3) return wrong_value(name, text, "D,H,W or H,W or W");
            for (std::size_t i = 0; i < sizes.size(); ++i) call.problem.*coordinates[3 - sizes.size() + i] = sizes[i];
            return {};
          }};
}

}  // namespace

std::vector<ProblemOption<Conv>> Line<Conv>::options() {
  using P = ConvProblem;
  OptionTable<Conv> table;
  table.group("Problem")
      .field("direction", {"--direction"},
             "fwd (the default; y of x and w), bwd_data (x of y and w; transposed), or bwd_weight (w of x and y)")
      .field("batch", {"--batch", "-n"}, "Images (default 1)")
      .field("groups", {"--groups"}, "Groups of channels (default 1)")
      .field("c", {"-c"}, "Channels of x in a group (default 64)")
      .always()
      .field("k", {"-k"}, "Channels of y in a group (default: c)")
      .always()
      .add(spatial_option("--in", "Pixels of x: [[D,]H,]W (default 56,56)", "in", {&P::in_d, &P::in_h, &P::in_w}, 1))
      .always()
      .add(spatial_option("--filter", "Taps: [[D,]H,]W (default 3,3)", "filter",
                          {&P::filter_d, &P::filter_h, &P::filter_w}, 1))
      .always()
      .add(spatial_option("--stride", "Pixels of x from one pixel of y to the next: [[D,]H,]W (default 1)", "stride",
                          {&P::stride_d, &P::stride_h, &P::stride_w}, 1))
      .add(spatial_option("--dilation", "Pixels of x from one tap to the next: [[D,]H,]W (default 1)", "dilation",
                          {&P::dilation_d, &P::dilation_h, &P::dilation_w}, 1))
      .add(spatial_option("--pad", "Pixels of zeros before x: [[D,]H,]W (default 0)", "pad",
                          {&P::pad_d, &P::pad_h, &P::pad_w}, 0))
      .add(spatial_option("--pad-high", "Pixels of zeros behind x: [[D,]H,]W (default: --pad)", "pad_high",
                          {&P::pad_high_d, &P::pad_high_h, &P::pad_high_w}, 0))
      .field("data_type", {"--dtype"}, "fp32, fp16 or bf16 (the default); forward also fp8 and int8")
      .always()
      .field("type_out", {"--dtype-out"},
             "Type of the result: --dtype (the default) or fp32; of fp8 bf16 (the default), fp16 or fp32, of int8 fp32 "
             "(the default), bf16, fp16 or int8")
      .field("type_bias", {"--dtype-bias"}, "Type of the bias: fp32, fp16 or bf16 (default: --dtype-out)")
      .field("unaligned", {"--unaligned"}, "Plan for tensors whose pixels begin at any element")
      .field("packed_w", {"--packed", "--packed-w"},
             "w is packed once before the calls; on the CPU, of fwd and bwd_data")
      .field("layout", {"--layout"}, "channels_last (the default, nhwc) or channels_first (nchw)");
  table.group("The result's epilogue")
      .field("epilogue", {"--epilogue"},
             "Operations in order, with commas between: bias, scale_n, add, multiply, relu, gelu, gelu_tanh, silu, "
             "sigmoid, tanh, clamp; not of bwd_weight")
      .add(clamp_option<Conv>())
      .field("seed", {"--seed"}, "Seed of random inputs (default 0)");
  return table.finish();
}

Status Line<Conv>::complete(ConvCall& call, const GivenFields& given) {
  ConvProblem& p = call.problem;
  if (!given.has("c")) p.c = 64;
  if (!given.has("k")) p.k = p.c;
  if (!given.has("in_w")) p.in_h = p.in_w = 56;
  if (!given.has("filter_w")) p.filter_h = p.filter_w = 3;
  if (!given.has("pad_high_w")) {
    p.pad_high_d = p.pad_d;
    p.pad_high_h = p.pad_h;
    p.pad_high_w = p.pad_w;
  }
  if (!given.has("type_out")) p.type_out = usual_type_out(p.data_type);
  if (!given.has("type_bias")) p.type_bias = p.type_out == DataType::int8 ? DataType::fp32 : p.type_out;
  TS_TRY(check_clamp_option(given, p));
  return validate(p);
}

ConvNumbers Line<Conv>::usual_numbers(const ConvProblem&) {
  return {};
}

}  // namespace tilesmith
