#include "dispatch/gemm/cuda_list.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/log.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/gemm/cuda_model.hpp"
#include "choose/gemm/gpu_signature.hpp"
#include "dispatch/gemm/cuda_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "kernels/cuda/gemm/abi.h"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // kernels count rows, columns and tiles in 32 bits

bool is_empty(const GemmProblem& p) {
  return p.m == 0 || p.n == 0 || p.batch == 0;
}

/// Whether a GEMM gains by sharing a launch, and the list's kernels take it.
bool is_small(const GemmProblem& p, const CudaSpec& spec) {
  constexpr std::int64_t kTile = 128;
  if (spec.gemm.list_gflop && flops_of(p) > *spec.gemm.list_gflop * 1e9) return false;
  if (p.batch != 1 || p.group_size != 0 || p.k2 != 0 || std::max({p.m, p.n, p.k}) > kLongest) return false;
  return (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile) < spec.reference.sms;
}

/// What is alike in GEMMs of one form. An odd number of columns asks for narrower accesses.
GemmProblem form_of(const GemmProblem& p) {
  GemmProblem form = p;
  form.m = form.k = 1;
  form.n = 2 - p.n % 2;
  return form;
}

/// Up to a power of two, odd where the form is.
std::int64_t round_number(double size) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(1.0, std::ceil(size)))));
}

/// The mean size, by work, and how many of it the work is.
GemmProblem typical_of(std::span<const GemmProblem> problems, const CudaListPart& part) {
  double work = 0, m = 0, n = 0, k = 0;
  for (const std::size_t at : part.products) {
    const GemmProblem& p = problems[at];
    const double own = flops_of(p) + 1;  // k may be 0
    work += own;
    m += own * static_cast<double>(p.m);
    n += own * static_cast<double>(p.n);
    k += own * static_cast<double>(p.k);
  }
  GemmProblem typical = part.typical;
  const bool odd = typical.n % 2 != 0;
  typical.m = round_number(m / work);
  typical.n = round_number(n / work) + (odd ? 1 : 0);
  if (!odd) typical.n = std::max<std::int64_t>(typical.n, 2);
  typical.k = round_number(k / work);
  typical.batch = round_number(work / std::max(flops_of(typical), 1.0));
  return typical;
}

std::size_t launches_of(const CudaListPart& part) {
  const auto room = static_cast<std::size_t>(part.kernel->facts.list_products);
  return (part.products.size() + room - 1) / room;
}

double predicted_seconds_of(const CudaListPart& part, std::span<const GemmProblem> problems, const CudaSpec& spec) {
  std::vector<CudaGemmShape> shapes;
  shapes.reserve(part.products.size());
  for (const std::size_t at : part.products) shapes.push_back(cuda_gemm_shape(problems[at]));
  const KernelConfig& config = part.kernel->config;
  return predicted_list_seconds(config, row_of(config, spec), spec, shapes, launches_of(part));
}

struct Table {
  TsCudaGemmList list{};
  std::size_t bytes = 0;  ///< of the entries
};

/// What the epilogue's operation `at` of the kernel reads of this product. beta * C is an addition in front of them.
TsCudaGemmListOperand operand_of(const GemmProblem& p, const GemmArguments& a, std::size_t at) {
  if (p.beta && at == 0) return {const_cast<void*>(a.c.data), a.c.leading, a.beta, 0};
  const std::size_t i = at - (p.beta ? 1 : 0);
  const EpilogueOp op = p.epilogue[i];
  const EpilogueOperand& x = a.epilogue[i];
  if (reads_tensor(op)) return {const_cast<void*>(x.data), x.leading, 1, 0};
  if (op == EpilogueOp::amax) return {a.amax, 0, 0, 0};
  return {const_cast<void*>(x.data), 0, x.low, x.high};
}

/// An entry of a launch's table has room for alpha alone.
Status check_scales(const GemmArguments& a) {
  if (a.alpha == 0 || (a.scale_a.data == nullptr && a.scale_b.data == nullptr)) return {};
  return fail(ErrorCode::unsupported, "its scales are numbers on the device, and it shares a launch",
              "vectors of scales in the epilogue, or a call of its own");
}

}  // namespace

CudaListParts cuda_list_parts(std::span<const GemmProblem> problems, const CudaSpec& spec) {
  CudaListParts parts;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (is_empty(problems[i])) continue;
    if (!is_small(problems[i], spec)) {
      parts.alone.push_back(i);
      continue;
    }
    const GemmProblem form = form_of(problems[i]);
    auto part = std::ranges::find(parts.shared, form, &CudaListPart::typical);
    if (part == parts.shared.end()) part = parts.shared.insert(part, {.typical = form, .products = {}});
    part->products.push_back(i);
  }
  for (const CudaListPart& part : parts.shared)
    if (part.products.size() == 1) parts.alone.push_back(part.products.front());
  std::erase_if(parts.shared, [](const CudaListPart& part) { return part.products.size() == 1; });
  for (CudaListPart& part : parts.shared) part.typical = typical_of(problems, part);
  return parts;
}

Result<CudaListKernel> CudaGemmList::kernel_for(const GemmProblem& typical, BuildPolicy build) {
  const std::lock_guard lock(mutex_);
  for (const auto& [problem, kernel] : kernels_)
    if (problem == typical) return kernel;
  TS_ASSIGN(GemmSignature signature, gpu_signature_of(typical));
  signature.family = GemmFamily::grouped_gemm;
  const std::vector<Candidate> ranked = ranked_cuda_gemm(spec_, signature, cuda_gemm_shape(typical));
  if (ranked.empty()) return std::unexpected(no_cuda_gemm(spec_, signature));
  const KernelConfig& config = ranked.front().recipe.main();
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  const CudaGemmResources facts = cuda_gemm_resources(config);
  TS_ASSIGN(const CudaKernel kernel,
            registry_.find(*context, config, static_cast<std::size_t>(facts.shared_bytes), build));
  kernels_.emplace_back(typical, CudaListKernel{config, facts, kernel});
  return kernels_.back().second;
}

Result<std::unique_ptr<const GemmListPlan>> CudaGemmList::plan(std::vector<GemmProblem> problems, const Planner& plan,
                                                               const DispatcherOptions& options) {
  return plan_with_row_d(std::move(problems),
                         [&](std::vector<GemmProblem> row_d) { return plan_row_d(std::move(row_d), plan, options); });
}

Result<std::unique_ptr<const GemmListPlan>> CudaGemmList::plan_row_d(std::vector<GemmProblem> problems,
                                                                     const Planner& plan,
                                                                     const DispatcherOptions& options) {
  CudaListParts parts;
  if (options.kernel.empty()) {
    parts = cuda_list_parts(problems, spec_);
    for (CudaListPart& part : parts.shared) {
      auto kernel = kernel_for(part.typical, options.build);
      if (kernel) {
        part.kernel = *kernel;
        part.predicted_seconds = predicted_seconds_of(part, problems, spec_);
        continue;
      }
      constexpr const char* kAlone = "products one after another";
      log_once(LogLevel::warn, kAlone, fmt::format("{}; going on with {}", kernel.error().text(), kAlone));
      parts.alone.insert(parts.alone.end(), part.products.begin(), part.products.end());
      part.products.clear();
    }
  } else {  // the named kernel computes single GEMMs
    for (std::size_t i = 0; i < problems.size(); ++i) parts.alone.push_back(i);
  }
  return CudaGemmListPlan::make(std::move(problems), std::move(parts), plan, device_index_);
}

Result<std::unique_ptr<const GemmListPlan>> CudaGemmListPlan::make(std::vector<GemmProblem> problems,
                                                                   CudaListParts parts,
                                                                   const ListBackend<Gemm>::Planner& plan,
                                                                   int device_index) {
  GemmListInfo steps;
  std::size_t launches = 0;
  std::erase_if(parts.shared, [](const CudaListPart& part) { return part.products.empty(); });
  for (const CudaListPart& part : parts.shared) {
    steps.add(part.kernel->config, part.products.size(), part.predicted_seconds);
    launches += launches_of(part);
  }
  std::vector<Alone> alone;
  for (const std::size_t at : parts.alone) {
    const auto own = plan(problems[at]);
    if (!own) return std::unexpected(of_product(own.error(), at, problems.size()));
    steps.add(**own);
    alone.push_back({static_cast<const CudaGemmPlan*>(*own), at});
  }
  PlanInfo info = steps.info({DeviceKind::cuda, device_index}, problems.size(),
                             fmt::format("in {} launches", launches + alone.size()));
  return std::unique_ptr<const GemmListPlan>(
      new CudaGemmListPlan(std::move(problems), std::move(info), std::move(parts.shared), std::move(alone)));
}

Status CudaGemmListPlan::run(std::span<const GemmArguments> arguments, const RunOptions& options) const {
  TS_TRY(validate(problems(), arguments));
  const auto named = [&](const Status& status, std::size_t at) -> Status {
    return status ? status : std::unexpected(of_product(status.error(), at, arguments.size()));
  };
  for (const CudaListPart& part : shared_)
    for (const std::size_t at : part.products) {
      TS_TRY(named(check_scales(arguments[at]), at));
      TS_TRY(named(check_alignment(problems()[at], part.kernel->facts, arguments[at]), at));
    }
  for (const Alone& each : alone_)
    if (!is_empty(problems()[each.product])) TS_TRY(named(each.plan->check(arguments[each.product]), each.product));
  // A list asks for no workspace, so what the caller may have given is not large enough for a GEMM's partials.
  const RunOptions own{.stream = options.stream};
  for (const Alone& each : alone_) TS_TRY(named(each.plan->run(arguments[each.product], own), each.product));
  if (shared_.empty()) return {};
  const CudaCurrent current(shared_.front().kernel->kernel.context());
  TS_TRY(current.status());
  for (const CudaListPart& part : shared_) TS_TRY(launch_part(part, arguments, options));
  return {};
}

Status CudaGemmListPlan::launch_part(const CudaListPart& part, std::span<const GemmArguments> arguments,
                                     const RunOptions& options) const {
  const auto& [config, facts, kernel] = *part.kernel;
  const std::size_t operations = std::get<GemmSignature>(config.signature).epilogue_ops.size();
  CudaLaunch how;
  how.stream = static_cast<cu::Stream>(options.stream);
  how.block = {static_cast<unsigned>(facts.threads), 1, 1};
  how.dynamic_shared_bytes = static_cast<unsigned>(facts.shared_bytes);
  TsCudaGemmArgs common{};
  common.batch = common.splits = 1;
  common.band = 8;
  Table table;
  std::int64_t tiles = 0;
  const auto put = [&table](const auto& value) {
    std::memcpy(table.list.entries + table.bytes, &value, sizeof value);
    table.bytes += sizeof value;
  };
  const auto send = [&]() -> Status {
    table.list.tiles = static_cast<int>(tiles);
    how.grid.x = static_cast<unsigned>(tiles);
    const Status status = launch_with(kernel, how, common, table.list);
    table = {};
    tiles = 0;
    return status;
  };
  for (const std::size_t at : part.products) {
    const GemmProblem& p = problems()[at];
    const GemmArguments& a = arguments[at];
    const CudaGemmShape shape{.m = p.m, .n = p.n, .k = p.k};
    put(TsCudaGemmListEntry{.a = a.a.data,
                            .b = a.b.data,
                            .d = a.d,
                            .a_stride = a.a.leading,
                            .b_stride = a.b.leading,
                            .d_stride = a.d_leading,
                            .m = static_cast<int>(p.m),
                            .n = static_cast<int>(p.n),
                            .k = a.alpha == 0 ? 0 : static_cast<int>(p.k),  // A and B are not to be read then
                            .first_tile = static_cast<int>(tiles),
                            .alpha = a.alpha,
                            .reserved = 0});
    for (std::size_t i = 0; i < operations; ++i) put(operand_of(p, a, i));
    tiles += cuda_gemm_tiles(config, shape);  // each has fewer than the chip has SMs: their sum fits
    if (++table.list.gemms == facts.list_products) TS_TRY(send());
  }
  return table.list.gemms > 0 ? send() : Status{};
}

}  // namespace tilesmith
