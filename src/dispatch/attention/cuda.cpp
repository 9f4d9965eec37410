#include "dispatch/attention/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/log.hpp"
#include "dispatch/attention/cuda_plan.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "instances/attention/cuda.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

CudaAttentionShape shape_of(const AttentionProblem& p) {
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seqlen_q) *
                       static_cast<double>(p.seqlen_k);
  return {.batch = p.batch,
          .heads_q = p.heads_q,
          .heads_kv = p.heads_kv,
          .seqlen_q = p.seqlen_q,
          .seqlen_k = p.seqlen_k,
          .bias_can_be_copied = !p.unaligned_bias,
          .visible = pairs > 0 ? visible_pairs(p) / pairs : 1};
}

/// Which rule stands in the way, asked of the spec's own tiles.
Error why_none(const CudaSpec& spec, const AttentionSignature& signature) {
  for (const CudaAttentionPipeline& pipeline : spec.attention_fwd)
    for (const CudaTile& tile : pipeline.tiles) {
      KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
      config.algorithm.pipeline = pipeline.pipeline;
      config.algorithm.instruction = pipeline.instruction;
      config.algorithm.tile = {static_cast<std::uint16_t>(tile.tile_m), static_cast<std::uint16_t>(tile.tile_n)};
      const CudaAttentionSubject subject{config, spec};
      if (const auto* rule = first_refusal(cuda_attention_rules(), subject))
        return {ErrorCode::unsupported,
                fmt::format("no CUDA kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
                std::string(rule->about)};
    }
  return {ErrorCode::unsupported, fmt::format("no CUDA kernel computes this problem on {}", spec.arch.text())};
}

}  // namespace

AttentionSignature cuda_signature_of(const AttentionProblem& p) {
  AttentionSignature s = signature_of(p);
  const MaskWindow window = window_of(p);
  s.mask = window.left >= 0 ? MaskKind::generic : window.right >= 0 ? MaskKind::causal : MaskKind::none;
  s.negative_scale = p.negative_scale;
  s.unaligned = p.unaligned;
  if (input_type(p.data_type) == DataType::fp8)
    s.qscale = p.block_scale ? QuantScale::blockscale : QuantScale::pertensor;
  return cuda_attention_signature(s);
}

bool cuda_serves(const KernelConfig& config, const AttentionProblem& problem) {
  if (config.operation() != Operation::attention) return false;
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = cuda_signature_of(problem);
  // What a kernel may have for nothing: an absent bias, sink or log-sum-exp is a null pointer, no dropout a threshold
  // of zero, a missing bound a far one.
  AttentionSignature rest = have;
  if (have.mask == MaskKind::generic || (have.mask == MaskKind::causal && want.mask == MaskKind::none))
    rest.mask = want.mask;
  if (have.bias == BiasKind::elementwise && want.bias == BiasKind::none) rest.bias = want.bias;
  if (have.lse) rest.lse = want.lse;
  if (have.dropout) rest.dropout = want.dropout;
  if (have.sink) rest.sink = want.sink;
  if (have.unaligned) rest.unaligned = want.unaligned;
  if (have.qscale == QuantScale::blockscale) rest.qscale = want.qscale;
  if (config.algorithm.bias_stages > 0 && problem.unaligned_bias && want.bias == BiasKind::elementwise) return false;
  const int packed = std::max<int>(1, config.algorithm.pack_gqa);
  return rest == want && (packed == 1 || packed == problem.heads_q / problem.heads_kv);
}

Result<Ranking> CudaAttention::rank(const AttentionProblem& problem) const {
  const AttentionSignature signature = cuda_signature_of(problem);
  const CudaAttentionShape shape = shape_of(problem);
  std::vector<Candidate> candidates;
  for (const KernelConfig& config : ranked_cuda_attention(spec_, signature, shape))
    candidates.push_back({config, estimated_seconds(config, spec_, shape)});
  if (candidates.empty()) return std::unexpected(why_none(spec_, signature));
  return Ranking{std::move(candidates), "tile table"};
}

Status CudaAttention::check(const Recipe& recipe, const AttentionProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  const KernelConfig& config = recipe.main();
  if (config.arch != spec_.arch)
    return fail(ErrorCode::unsupported,
                fmt::format("kernel {} is for {}, the device is {}", native_name(config), config.arch.text(),
                            spec_.arch.text()),
                "tilesmith arch lists what runs here");
  const CudaAttentionSubject subject{config, spec_};
  if (const auto* rule = first_refusal(cuda_attention_rules(), subject))
    return fail(ErrorCode::unsupported,
                fmt::format("kernel {}: rule {}: {}", native_name(config), rule->name, rule->figures(subject)),
                std::string(rule->about));
  if (!cuda_serves(config, problem))
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not compute this problem", native_name(config)),
                fmt::format("the problem's kernels are {}", native_name({.arch = config.arch,
                                                                         .signature = cuda_signature_of(problem),
                                                                         .algorithm = config.algorithm})));
  return {};
}

Result<CudaTileCounters*> CudaAttention::counters(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (counters_ == nullptr) {
    TS_ASSIGN(counters_, CudaTileCounters::create(context));
  }
  return counters_.get();
}

Result<std::unique_ptr<AttentionPlan>> CudaAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                           std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              const long shared_bytes = cuda_attention_resources(step).shared_bytes;
              return registry_.find(*context, step, static_cast<std::size_t>(shared_bytes), build);
            }));
  CudaTileCounters* tile_counters = nullptr;
  if (config.algorithm.dynamic_scheduler) {
    TS_ASSIGN(tile_counters, counters(*context));
  }
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  if (tile_counters != nullptr) {
    WorkspaceLayout layout;
    layout.add_library_memory("tile counters", CudaTileCounters::kPairBytes);
    layout.tell(info);
  }
  // Where another pipeline's tile is the device's first choice, the slower one is said once, not hidden.
  if (config.algorithm.pipeline != spec_.attention_fwd.front().pipeline)
    log_once(LogLevel::info, info.recipe,
             fmt::format("{} runs on the {} pipeline: tilesmith explain says which rule refuses {}", info.recipe,
                         name_of(config.algorithm.pipeline), name_of(spec_.attention_fwd.front().pipeline)));
  return CudaAttentionPlan::make(problem, std::move(info), config, spec_, std::move(steps), tile_counters);
}

}  // namespace tilesmith
