#include "cli/conv/options.hpp"

#include <fmt/format.h>

#include "cli/tensor_file.hpp"

namespace tilesmith::cli {

void ConvOptions::add_to(CLI::App& verb) {
  problem.add_to(verb);
  const char* files =
      "Tensors: x.npy or x.safetensors:name, in the order of dimensions that --layout says, converted to the types "
      "above; random when absent";
  verb.add_option("--x", x, "The image, of fwd and bwd_weight")->group(files);
  verb.add_option("--w", w, "The filters, of fwd and bwd_data")->group(files);
  verb.add_option("--y", y, "The gradient of the result, of bwd_data and bwd_weight")->group(files);
  verb.add_option("--bias", bias, "What bias adds, one number for each channel of the result")->group(files);
  verb.add_option("--scale-n", scale_n, "What scale_n multiplies, likewise")->group(files);
  for (std::size_t i = 0; i < kTensors; ++i)
    verb.add_option(fmt::format("--d{}", i), tensors[i], fmt::format("Tensor {} that add or multiply reads", i))
        ->group(files);
  verb.add_option("--out", out, "Where to write the result")->group(files);
}

Result<CallOnFiles<Conv>> read_call_on_files(const ConvOptions& o) {
  TS_ASSIGN(RandomCall<Conv> call, read_call<Conv>(o.problem.given()));
  ConvInputs inputs;
  const auto read = [](const std::string& file, HostArray& into) -> Status {
    if (file.empty()) return {};
    TS_ASSIGN(into, read_tensor(file));
    return {};
  };
  TS_TRY(read(o.x, inputs.x));
  TS_TRY(read(o.w, inputs.w));
  TS_TRY(read(o.y, inputs.y));
  std::size_t tensor = 0;
  bool bias = false, scale = false;
  for (std::size_t i = 0; i < call.problem.epilogue.size(); ++i) {
    const EpilogueOp op = call.problem.epilogue[i];
    if (op == EpilogueOp::bias && !std::exchange(bias, true)) TS_TRY(read(o.bias, inputs.epilogue[i]));
    if (op == EpilogueOp::scale_n && !std::exchange(scale, true)) TS_TRY(read(o.scale_n, inputs.epilogue[i]));
    if (reads_tensor(op) && tensor < ConvOptions::kTensors) TS_TRY(read(o.tensors[tensor++], inputs.epilogue[i]));
  }
  const auto unread = [](const char* option) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is given, and no operation of --epilogue reads it", option),
                "--epilogue bias, scale_n, add or multiply");
  };
  if (!o.bias.empty() && !bias) return unread("--bias");
  if (!o.scale_n.empty() && !scale) return unread("--scale-n");
  for (std::size_t i = tensor; i < ConvOptions::kTensors; ++i)
    if (!o.tensors[i].empty()) return unread(i == 0 ? "--d0" : "--d1");
  return CallOnFiles<Conv>{std::move(call), std::move(inputs)};
}

}  // namespace tilesmith::cli
