#include "cli/gemm/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/dimension.hpp"
#include "cli/tensor_file.hpp"
#include "problem/describe.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::cli {

void GemmOptions::add_to(CLI::App& verb) {
  const char* sizes = "Problem";
  verb.add_option("-m", m, "Rows of op(A) and D (default 512)")->group(sizes);
  verb.add_option("-n", n, "Columns of op(B); D has half of them when the epilogue has a gate (default 512)")
      ->group(sizes);
  verb.add_option("-k", k, "Columns of op(A), rows of op(B) (default 512)")->group(sizes);
  verb.add_option("--k2", k2, "A second product, op(A2) op(B2) with so many columns of op(A2), is added to the first")
      ->group(sizes);
  verb.add_flag("--packed", packed, "B, which the batch shares, is packed once before the calls; on the CPU")
      ->group(sizes);
  verb.add_flag("--constant-b", prefetch_weights,
                "No kernel before writes B: CUDA kernels of few rows may read it early")
      ->group(sizes);
  verb.add_option("--batch", batch, "Products, or groups (default 1, or as many as --group-rows)")->group(sizes);
  verb.add_option("--grouping", grouping,
                  "Each product has rows of its own number: contiguous, behind one another in m rows of A and D, or "
                  "masked, each in m rows of its own")
      ->capture_default_str()
      ->group(sizes);
  verb.add_option("--group-rows", group_rows, "Rows of each group, with commas between (default: even, or full)")
      ->delimiter(',')
      ->group(sizes);
  verb.add_option("--scale-depth", group_size,
                  "Elements of k that share a random scale: 128 of fp8 and bf8; of int8 and int4 weights (--dtype-b of "
                  "fp16 or bf16) a power of two from 32 on, or k")
      ->group(sizes);
  verb.add_option("--dtype-scale", dtype_scale, "Type of scales: fp32, of weights also A's")
      ->capture_default_str()
      ->group(sizes);
  verb.add_flag("--zero-points", zero_points, "Integer weights have random zero points")->group(sizes);
  verb.add_option("--layout", layout, "Orders of A, B and D, each r(ow) or c(olumn), as in rcr")
      ->capture_default_str()
      ->group(sizes);
  verb.add_option("--dtype", dtype, "Type of A: fp32, tf32, fp16, bf16, fp8, bf8 or int8")
      ->capture_default_str()
      ->group(sizes);
  verb.add_option("--dtype-b", dtype_b, "Type of B (default: A's; int8 or int4: weights)")->group(sizes);
  verb.add_option("--dtype-out", dtype_out, "Type of D (default: A's; int32 of int8, bf16 of 8-bit floats)")
      ->group(sizes);
  verb.add_option("--dtype-c", dtype_c, "Type of C and of tensors to add or multiply (default: D's)")->group(sizes);
  verb.add_option("--dtype-bias", dtype_bias, "Type of the bias (default: D's, or fp32)")->group(sizes);

  const char* terms = "D = epilogue(alpha (op(A) op(B) + op(A2) op(B2)) + beta C)";
  verb.add_option("--alpha", alpha, "Factor of the products")->capture_default_str()->group(terms);
  verb.add_option("--beta", beta, "Factor of C")->capture_default_str()->group(terms);
  verb.add_option(
          "--epilogue", epilogue,
          "Operations in order, with commas between: bias, bias_m, scale_n, scale_m, add, multiply, relu, gelu, "
          "gelu_tanh, silu, sigmoid, tanh, clamp, glu, reglu, geglu, geglu_tanh, swiglu, amax")
      ->group(terms);
  verb.add_option("--clamp", clamp, "LOW,HIGH: the limits of clamp (default -1,1)")
      ->delimiter(',')
      ->expected(2)
      ->group(terms);
  verb.add_option("--seed", seed, "Seed of random inputs")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(terms);

  const char* files =
      "Tensors: x.npy or x.safetensors:name, of shape (rows, columns) or (batch, rows, columns) whatever "
      "--layout says, converted to the types above; random when absent";
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

Result<GemmEpilogue> parse_epilogue(const std::string& text) {
  GemmEpilogue list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    TS_ASSIGN(const EpilogueOp op, parse_enum<EpilogueOp>(std::string_view(text).substr(at, end - at)));
    if (!list.push_back(op) && op != EpilogueOp::none)
      return fail(ErrorCode::invalid_argument, fmt::format("--epilogue {}: too many operations", text),
                  fmt::format("at most {}", GemmEpilogue::kMax));
    at = end + 1;
  }
  return list;
}

Status tell_shape(const char* name, const HostArray& array, Dimension& batch, Dimension& rows, Dimension& columns) {
  const std::size_t rank = array.shape.size();
  if (rank == 0 && array.data.empty()) return {};
  if (rank != 2 && rank != 3)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(array.shape)),
                "(rows, columns) or (batch, rows, columns)");
  const std::string by = fmt::format("the shape {} of {}", shape_text(array.shape), name);
  if (rank == 3) TS_TRY(batch.tell(array.shape[0], by));
  TS_TRY(rows.tell(array.shape[rank - 2], by));
  return columns.tell(array.shape[rank - 1], by);
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

Result<GemmCase> make_case(const GemmOptions& o) {
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
  if (!o.c.empty() && o.beta == 0) return fail(ErrorCode::invalid_argument, "--c is given and --beta is 0", "--beta 1");
  Dimension batch{"batch"}, m{"m"}, n{"n"}, k{"k"}, k2{"k2"};
  TS_TRY(batch.tell(o.batch, "--batch"));
  TS_TRY(m.tell(o.m, "-m"));
  TS_TRY(n.tell(o.n, "-n"));
  TS_TRY(k.tell(o.k, "-k"));
  TS_TRY(k2.tell(o.k2, "--k2"));
  TS_ASSIGN(const GemmGrouping grouping, parse_enum<GemmGrouping>(o.grouping));
  if (!o.group_rows.empty()) {
    if (grouping == GemmGrouping::none)
      return fail(ErrorCode::invalid_argument, "--group-rows without --grouping", "--grouping contiguous or masked");
    if (const auto least = std::ranges::min(o.group_rows); least < 0)
      return fail(ErrorCode::invalid_argument, fmt::format("--group-rows has {}", least), "0 or more for each group");
    TS_TRY(batch.tell(static_cast<std::int64_t>(o.group_rows.size()), "the length of --group-rows"));
    if (!o.m) {
      const std::int64_t sum = std::accumulate(o.group_rows.begin(), o.group_rows.end(), std::int64_t{0});
      const std::int64_t rows =
          grouping == GemmGrouping::contiguous ? sum : *std::max_element(o.group_rows.begin(), o.group_rows.end());
      TS_TRY(m.tell(rows, "--group-rows"));
    }
  }
  Dimension members{"batch of A"};
  Dimension& batch_of_a = grouping == GemmGrouping::contiguous ? members : batch;
  TS_TRY(tell_shape("a", inputs.a, batch_of_a, m, k));
  TS_TRY(tell_shape("b", inputs.b, batch, k, n));
  TS_TRY(tell_shape("a2", inputs.a2, batch_of_a, m, k2));
  TS_TRY(tell_shape("b2", inputs.b2, batch, k2, n));
  TS_TRY(tell_shape("c", inputs.c, batch_of_a, m, n));

  TS_ASSIGN(const DataType type, parse_enum<DataType>(o.dtype));
  std::optional<DataType> output;
  if (!o.dtype_out.empty()) {
    TS_ASSIGN(output, parse_enum<DataType>(o.dtype_out));
  }
  constexpr std::int64_t kUsualSize = 512;
  GemmProblem problem = gemm_problem(type, m.or_else(kUsualSize), n.or_else(kUsualSize), k.or_else(kUsualSize), output);
  problem.k2 = k2.or_else(0);
  problem.packed_b = o.packed;
  problem.prefetch_weights = o.prefetch_weights;
  problem.batch = batch.or_else(1);
  problem.grouping = grouping;
  problem.group_size = o.group_size;
  TS_ASSIGN(problem.type_scale, parse_enum<DataType>(o.dtype_scale));
  if (o.group_size == 0 && problem.type_scale != DataType::fp32)
    return fail(ErrorCode::invalid_argument, "--dtype-scale without scales along k", "--scale-depth");
  problem.zero_points = o.zero_points;
  for (const auto& [name, into] : {std::pair{&o.dtype_b, &problem.type_b}, std::pair{&o.dtype_c, &problem.type_c},
                                   std::pair{&o.dtype_bias, &problem.type_bias}})
    if (!name->empty()) {
      TS_ASSIGN(*into, parse_enum<DataType>(*name));
    }
  if (const Status set = set_layout(problem, o.layout); !set)
    return fail(ErrorCode::invalid_argument, fmt::format("--layout {}", o.layout), set.error().hint);
  problem.beta = o.beta != 0;
  TS_ASSIGN(problem.epilogue, parse_epilogue(o.epilogue));
  TS_TRY(read_operands(o, problem.epilogue, inputs));
  inputs.alpha = o.alpha;
  inputs.beta = o.beta;
  if (!o.clamp.empty()) {
    if (std::ranges::find(problem.epilogue, EpilogueOp::clamp) == problem.epilogue.end())
      return fail(ErrorCode::invalid_argument, "--clamp is given, and --epilogue has no clamp", "--epilogue clamp");
    inputs.clamp_low = o.clamp[0];
    inputs.clamp_high = o.clamp[1];
  }
  inputs.seed = o.seed;
  inputs.group_rows = o.group_rows;
  return GemmCase::create(problem, std::move(inputs));
}

}  // namespace tilesmith::cli
