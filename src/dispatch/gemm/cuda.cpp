#include "dispatch/gemm/cuda.hpp"

#include <fmt/format.h>

#include "dispatch/gemm/cuda_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/plan_info.hpp"
#include "problem/gemm/problem.hpp"
#include "runtime/cuda/stream.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kZeroBytes = 16;

bool may_share(const KernelConfig& config) {
  return config.algorithm.split_k || config.algorithm.stream_k;
}

}  // namespace

Error cuda_gemm_refusal(const CudaSpec& spec, const GemmSignature& signature) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  const CudaGemmPipeline& pipeline = spec.gemm.pipelines.back();
  config.algorithm.pipeline = pipeline.pipeline;
  config.algorithm.instruction = pipeline.instruction;
  const CudaGemmSubject subject{config, spec};
  const auto* rule = first_refusal(cuda_gemm_rules(), subject);
  if (rule == nullptr)
    return {ErrorCode::unsupported, fmt::format("no CUDA kernel computes this problem on {}", spec.arch.text())};
  return {ErrorCode::unsupported,
          fmt::format("no CUDA kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
          std::string(rule->about)};
}

CudaGemmShape cuda_gemm_shape(const GemmProblem& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .unaligned = p.unaligned,
          .grouping = p.grouping,
          .k2 = p.k2,
          .prefetch_weights = p.prefetch_weights};
}

Result<GemmSignature> cuda_signature_of(const GemmProblem& p) {
  if (p.packed_b)
    return fail(ErrorCode::unsupported, "CUDA kernels read no packed B", "B as it lies, which they read at full speed");
  GemmSignature s;
  s.a = p.type_a;
  s.b = p.type_b;
  s.c = p.type_d;
  s.accumulator = p.type_a == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.aux = p.type_d;
  s.grouping = p.grouping;
  s.zero_points = p.zero_points;
  if (has_weights(p))
    s.scale = p.type_scale;
  else if (p.group_size != 0)
    s.qscale = QuantScale::blockscale;
  s.mm_plus_mm = p.k2 != 0;
  s.layout_a = p.order_a;
  s.layout_b = p.order_b;
  if (p.beta) s.epilogue_ops.push_back(EpilogueOp::add);
  for (const EpilogueOp op : p.epilogue)
    if (!s.epilogue_ops.push_back(op))
      return fail(ErrorCode::unsupported,
                  fmt::format("beta * C and an epilogue of {} operations are more than a CUDA kernel carries",
                              p.epilogue.size()),
                  fmt::format("at most {} with C", GemmEpilogue::kMax - 1));
  for (const EpilogueOp op : s.epilogue_ops) {
    if (reads_tensor(op)) s.aux = p.type_c;
    if (op == EpilogueOp::bias || op == EpilogueOp::bias_m) s.bias = p.type_bias;
  }
  return s;
}

Result<Ranking> CudaGemm::rank(const GemmProblem& given) const {
  const GemmProblem problem = with_row_d(given);
  TS_ASSIGN(const GemmSignature signature, cuda_signature_of(problem));
  std::vector<Candidate> candidates;
  const CudaGemmShape shape = cuda_gemm_shape(problem);
  for (RankedCudaGemm& one : ranked_cuda_gemm(spec_, signature, shape))
    if (!may_share(one.config) || cuda_gemm_shares(one.config, spec_, shape))
      candidates.push_back({std::move(one.config), one.seconds});
  if (candidates.empty()) return std::unexpected(cuda_gemm_refusal(spec_, signature));
  return Ranking{std::move(candidates), "tile table"};
}

Status CudaGemm::check(const Recipe& recipe, const GemmProblem& given) const {
  const GemmProblem problem = with_row_d(given);
  TS_TRY(check_one_step(recipe));
  const KernelConfig& config = recipe.main();
  const auto refuse = [&](ErrorCode code, const std::string& what, std::string hint) {
    return fail(code, fmt::format("kernel {} {}", native_name(config), what), std::move(hint));
  };
  if (config.arch != spec_.arch)
    return refuse(ErrorCode::unsupported,
                  fmt::format("is for {}, the device is {}", config.arch.text(), spec_.arch.text()),
                  "tilesmith arch lists what runs here");
  if (config.operation() != Operation::gemm)
    return refuse(ErrorCode::invalid_argument, "is no GEMM", "a name that begins with gemm");
  const CudaGemmSubject subject{config, spec_};
  if (const auto* rule = first_refusal(cuda_gemm_rules(), subject))
    return refuse(ErrorCode::unsupported, fmt::format("is refused: rule {}: {}", rule->name, rule->figures(subject)),
                  std::string(rule->about));
  TS_ASSIGN(const GemmSignature signature, cuda_signature_of(problem));
  if (subject.signature() != signature)
    return refuse(
        ErrorCode::invalid_argument, "does not compute this problem",
        fmt::format("the problem's kernels are {}",
                    native_name({.arch = config.arch, .signature = signature, .algorithm = config.algorithm})));
  if (!cuda_gemm_suits(config, cuda_gemm_shape(problem)))
    return refuse(
        ErrorCode::invalid_argument,
        fmt::format(
            "does not suit a product of {} x {} x {}{}{}", problem.m, problem.n, problem.k,
            problem.unaligned ? ", unaligned" : "",
            config.algorithm.prefetch_weights && !problem.prefetch_weights ? ", whose B may still be written" : ""),
        "fewer elements at a time (vector), or another pipeline; a prefetch kernel asks for prefetch_weights");
  return {};
}

Result<const void*> CudaGemm::zeros(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (zeros_.data() == nullptr) {
    const CudaCurrent current(context);
    TS_TRY(current.status());
    const CudaCaptureRelaxed relaxed(context.driver());
    TS_ASSIGN(CudaBuffer memory, CudaBuffer::allocate(context, kZeroBytes));
    TS_ASSIGN(const CudaStream stream, CudaStream::create(context));
    TS_TRY(fill_bytes(context, memory.data(), 0, kZeroBytes, stream.handle()));
    TS_TRY(stream.synchronize());
    zeros_ = std::move(memory);
  }
  return zeros_.data();
}

Result<std::unique_ptr<GemmPlan>> CudaGemm::plan(const GemmProblem& problem, const Candidate& chosen,
                                                 std::string reason, BuildPolicy build) {
  return plan_with_row_d(problem,
                         [&](const GemmProblem& row_d) { return plan_row_d(row_d, chosen, std::move(reason), build); });
}

Result<std::unique_ptr<GemmPlan>> CudaGemm::plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              return registry_.find(*context, step, static_cast<std::size_t>(cuda_gemm_resources(step).shared_bytes),
                                    build);
            }));
  TS_ASSIGN(const void* zero, zeros(*context));
  CudaSplitMemory* split_memory = nullptr;
  if (may_share(config)) {
    const std::lock_guard lock(mutex_);
    if (split_memory_ == nullptr) split_memory_ = std::make_unique<CudaSplitMemory>(*context);
    split_memory = split_memory_.get();
  }
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  return CudaGemmPlan::make(problem, std::move(info), config, spec_, std::move(steps), zero, split_memory);
}

}  // namespace tilesmith
