// The figures of launches are those that stand at the top of kernels/hip/gemm/gemm.h.
#include "dispatch/gemm/hip_plan.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // kernels count rows, columns and k in 32 bits
constexpr std::int64_t kMostThreads = std::numeric_limits<std::uint32_t>::max();  // of HIP's launches, in all
constexpr std::int64_t kChunk = 16;                                               // bytes of A and B read at a time
/// Tiles walked side by side, so that what they share stays in the L2 cache; not measured.
constexpr int kBand = 8;

std::int64_t tiles_along(std::int64_t size, int tile) {
  return (size + tile - 1) / tile;
}

}  // namespace

Result<std::unique_ptr<GemmPlan>> HipGemmPlan::make(const GemmProblem& p, PlanInfo info, const KernelConfig& config,
                                                    const HipSpec& spec, const HipKernel& kernel) {
  for (const auto& [name, value] :
       {std::pair{"m", p.m}, std::pair{"n", p.n}, std::pair{"k", p.k}, std::pair{"batch", p.batch}})
    if (value > kLongest)
      return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a kernel's launch", name, value),
                  fmt::format("at most {}", kLongest));
  const Algorithm& a = config.algorithm;
  const HipFragment* fragment = spec.fragment(p.type_a, a.warp[0]);
  if (fragment == nullptr)
    return fail(ErrorCode::internal, fmt::format("{} has no such instruction", spec.arch.text()));
  const HipGemmResources facts = hip_gemm_resources(config, spec, *fragment);
  const double tiles = static_cast<double>(p.batch) * static_cast<double>(tiles_along(p.m, a.tile[0])) *
                       static_cast<double>(tiles_along(p.n, a.tile[1]));
  if (tiles * facts.threads > static_cast<double>(kMostThreads))
    return fail(ErrorCode::unsupported, fmt::format("{:.0f} tiles are beyond a launch", tiles),
                fmt::format("at most {}", kMostThreads / facts.threads));
  std::unique_ptr<HipGemmPlan> made(new HipGemmPlan(p, std::move(info), facts, kernel));
  made->blocks_ = static_cast<unsigned>(tiles);
  return made;
}

Status HipGemmPlan::check_alignment(const GemmArguments& a) const {
  const GemmProblem& p = problem();
  const auto aligned = [&](std::string_view name, const void* data, std::int64_t leading, std::int64_t batch,
                           DataType type, std::int64_t unit) -> Status {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const auto steps = static_cast<std::uintptr_t>((leading | (p.batch > 1 ? batch : 0)) * bits_of(type) / 8);
    if ((address | steps) % static_cast<std::uintptr_t>(unit) == 0) return {};
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} at address {} with leading dimension {} and batch stride {} is not aligned to {} bytes",
                            name, data, leading, batch, unit),
                "plan the problem with unaligned, for a kernel that asks for no alignment");
  };
  const auto unit = [&](DataType type) { return (facts_.wide ? kHipGemmRun : 1) * std::int64_t{bits_of(type) / 8}; };
  if (facts_.aligned && a.alpha != 0) {
    TS_TRY(aligned("a", a.a.data, a.a.leading, a.a.batch, p.type_a, kChunk));
    TS_TRY(aligned("b", a.b.data, a.b.leading, a.b.batch, p.type_b, kChunk));
  }
  if (a.beta != 0) TS_TRY(aligned("c", a.c.data, a.c.leading, a.c.batch, p.type_c, unit(p.type_c)));
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOp op = p.epilogue[i];
    const EpilogueOperand& x = a.epilogue[i];
    const std::string name = fmt::format("epilogue[{}]", i);
    if (reads_tensor(op)) TS_TRY(aligned(name, x.data, x.leading, x.batch, p.type_c, unit(p.type_c)));
    if (is_along_n(op)) {
      const DataType type = op == EpilogueOp::bias ? p.type_bias : DataType::fp32;
      TS_TRY(aligned(name, x.data, 0, 0, type, unit(type)));
    }
  }
  return aligned("d", a.d, a.d_leading, a.d_batch, p.type_d, unit(p.type_d));
}

TsHipGemmArgs HipGemmPlan::kernel_arguments(const GemmArguments& a) const {
  const GemmProblem& p = problem();
  TsHipGemmArgs out{};
  out.a = {a.a.data, a.a.leading, a.a.batch};
  out.b = {a.b.data, a.b.leading, a.b.batch};
  out.d = a.d;
  out.d_leading = a.d_leading;
  out.d_batch = a.d_batch;
  out.alpha = a.alpha;
  if (a.alpha != 0) {
    out.scale_a.data = a.scale_a.data;
    out.scale_b.data = a.scale_b.data;
  }
  std::size_t at = 0;
  if (p.beta) out.epilogue[at++] = {a.c.data, a.c.leading, a.c.batch, a.beta, 0};
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const EpilogueOperand& x = a.epilogue[i];
    TsHipGemmOperand& operand = out.epilogue[at++];
    if (reads_tensor(p.epilogue[i]))
      operand = {x.data, x.leading, x.batch, 1, 0};
    else if (reads_vector(p.epilogue[i]))
      operand = {x.data, 0, 0, 0, 0};  // the batch shares it
    else if (p.epilogue[i] == EpilogueOp::clamp)
      operand = {nullptr, 0, 0, x.low, x.high};
    else if (p.epilogue[i] == EpilogueOp::amax)
      operand = {a.amax, 0, 0, 0, 0};
  }
  out.m = static_cast<int>(p.m);
  out.n = static_cast<int>(p.n);
  out.k = static_cast<int>(a.alpha == 0 ? 0 : p.k);  // A and B are not to be read then
  out.batch = static_cast<int>(p.batch);
  out.band = kBand;
  return out;
}

Status HipGemmPlan::run(const GemmArguments& a, const RunOptions& options) const {
  TS_TRY(validate(problem(), a));
  TS_TRY(check_alignment(a));
  if (blocks_ == 0) return {};
  const TsHipGemmArgs arguments = kernel_arguments(a);
  void* const parameters[] = {const_cast<TsHipGemmArgs*>(&arguments)};
  return launch(kernel_,
                {.blocks = blocks_,
                 .threads = static_cast<unsigned>(facts_.threads),
                 .stream = static_cast<hip::Stream>(options.stream)},
                parameters);
}

}  // namespace tilesmith
