#include "cli/gemm/options.hpp"

#include <fmt/format.h>

#include "cli/tensor_file.hpp"

namespace tilesmith::cli {

void GemmOptions::add_to(CLI::App& verb) {
  problem.add_to(verb);
  const char* files =
      "Tensors: x.npy or x.safetensors:name, of shape (rows, columns) or (batch, rows, columns) whatever --layout "
      "says, converted to the types above; random when absent";
  verb.add_option("--a", a, "op(A), m x k")->group(files);
  verb.add_option("--b", b, "op(B), k x n")->group(files);
  verb.add_option("--a2", a2, "op(A2), m x k2")->group(files);
  verb.add_option("--b2", b2, "op(B2), k2 x n")->group(files);
  verb.add_option("--c", c, "C, m x n")->group(files);
  verb.add_option("--bias", bias, "The bias, n elements (bias_m: m)")->group(files);
  verb.add_option("--scale-n", scale_n, "Factors of columns, n elements")->group(files);
  verb.add_option("--scale-m", scale_m, "Factors of rows, m elements")->group(files);
  for (std::size_t i = 0; i < kTensors; ++i)
    verb.add_option(fmt::format("--d{}", i), tensors[i], fmt::format("Tensor {} that add or multiply reads, m x n", i))
        ->group(files);
  verb.add_option("--out", out, "Where to write D")->group(files);
}

namespace {

Status tell_shape(const char* name, const HostArray& array, SizeOption& batch, SizeOption& rows, SizeOption& columns) {
  const std::size_t rank = array.shape.size();
  if (rank == 0 && array.data.empty()) return {};
  if (rank != 2 && rank != 3)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(array.shape)),
                "(rows, columns) or (batch, rows, columns)");
  const std::string by = fmt::format("the shape {} of {}", shape_text(array.shape), name);
  if (rank == 3) TS_TRY(batch.dimension.tell(array.shape[0], by));
  TS_TRY(rows.dimension.tell(array.shape[rank - 2], by));
  return columns.dimension.tell(array.shape[rank - 1], by);
}

/// Reads each operation's file to its place in the list; a file that no operation reads is a mistake.
Status read_operands(const GemmOptions& options, const GemmEpilogue& epilogue, GemmInputs& inputs) {
  struct File {
    const std::string& name;
    std::string option;
    bool used = false;
  };
  std::vector<File> files{{options.bias, "--bias"}, {options.scale_n, "--scale-n"}, {options.scale_m, "--scale-m"}};
  const std::size_t first_tensor = files.size();
  for (std::size_t i = 0; i < GemmOptions::kTensors; ++i)
    files.push_back({options.tensors[i], fmt::format("--d{}", i)});
  std::size_t tensor = first_tensor;
  for (std::size_t i = 0; i < epilogue.size(); ++i) {
    const EpilogueOp op = epilogue[i];
    File* file = nullptr;
    if (op == EpilogueOp::bias || op == EpilogueOp::bias_m) file = &files[0];
    if (op == EpilogueOp::scale_n) file = &files[1];
    if (op == EpilogueOp::scale_m) file = &files[2];
    if (reads_tensor(op) && tensor < files.size()) file = &files[tensor++];
    if (file == nullptr) continue;
    file->used = true;
    if (!file->name.empty()) {
      TS_ASSIGN(inputs.epilogue[i], read_tensor(file->name));
    }
  }
  for (const File& file : files)
    if (!file.name.empty() && !file.used)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is given, and no operation of --epilogue reads it", file.option),
                  "--epilogue bias, scale_n, scale_m, add or multiply");
  return {};
}

}  // namespace

Result<CallOnFiles<Gemm>> read_call_on_files(const GemmOptions& o) {
  std::vector<GivenOption> given = o.problem.given();
  GemmInputs inputs;
  const auto read = [](const std::string& file, HostArray& into) -> Status {
    if (file.empty()) return {};
    TS_ASSIGN(into, read_tensor(file));
    return {};
  };
  TS_TRY(read(o.a, inputs.a));
  TS_TRY(read(o.b, inputs.b));
  TS_TRY(read(o.a2, inputs.a2));
  TS_TRY(read(o.b2, inputs.b2));
  TS_TRY(read(o.c, inputs.c));
  GemmGrouping grouping = GemmGrouping::none;
  if (const std::string* text = find_given(given, "--grouping")) TS_TRY(read_value_text("--grouping", *text, grouping));
  SizeOption batch{"batch", "--batch"}, m{"m", "-m"}, n{"n", "-n"}, k{"k", "-k"}, k2{"k2", "--k2"};
  for (SizeOption* size : {&batch, &m, &n, &k, &k2}) TS_TRY(size->read(given));
  SizeOption members{"batch of A", ""};
  SizeOption& batch_of_a = grouping == GemmGrouping::contiguous ? members : batch;
  TS_TRY(tell_shape("a", inputs.a, batch_of_a, m, k));
  TS_TRY(tell_shape("b", inputs.b, batch, k, n));
  TS_TRY(tell_shape("a2", inputs.a2, batch_of_a, m, k2));
  TS_TRY(tell_shape("b2", inputs.b2, batch, k2, n));
  TS_TRY(tell_shape("c", inputs.c, batch_of_a, m, n));
  for (const SizeOption* size : {&batch, &m, &n, &k, &k2}) size->give(given);

  TS_ASSIGN(RandomCall<Gemm> call, read_call<Gemm>(given));
  if (!o.c.empty() && !call.problem.beta)
    return fail(ErrorCode::invalid_argument, "--c is given and --beta is 0", "--beta 1");
  TS_TRY(read_operands(o, call.problem.epilogue, inputs));
  return CallOnFiles<Gemm>{std::move(call), std::move(inputs)};
}

}  // namespace tilesmith::cli
