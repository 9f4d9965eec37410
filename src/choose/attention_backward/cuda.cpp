#include "choose/attention_backward/cuda.hpp"

#include <fmt/format.h>

#include "choose/attention/whole_rows.hpp"
#include "choose/attention_backward/cuda_model.hpp"
#include "instances/attention_backward/cuda.hpp"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Which rule stands in the way, asked of the spec's own tiles.
Error why_no_backward(const CudaSpec& spec, const AttentionSignature& signature) {
  for (const CudaBackwardPipeline& pipeline : spec.attention_bwd)
    for (const CudaBackwardTile& tile : pipeline.tiles) {
      const KernelConfig config{
          .arch = spec.arch,
          .signature = signature,
          .algorithm = {.pipeline = pipeline.pipeline,
                        .instruction = pipeline.instruction,
                        .tile = {static_cast<std::uint16_t>(tile.tile_m), static_cast<std::uint16_t>(tile.tile_n)}}};
      const CudaBackwardSubject subject{config, spec};
      if (const auto* rule = first_refusal(cuda_backward_rules(), subject))
        return {ErrorCode::unsupported,
                fmt::format("no CUDA kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
                std::string(rule->about)};
    }
  return {ErrorCode::unsupported, fmt::format("no CUDA kernel computes attention backward on {}", spec.arch.text()),
          "a device that has them, such as the CPU"};
}

/// Whether the products have the problem's traits, and perhaps more: an absent bias or dbias is a null pointer, no
/// dropout a threshold of zero, a missing bound a far one.
bool has_cuda_backward_traits(const AttentionSignature& have, const AttentionSignature& want) {
  AttentionSignature rest = have;
  if (have.mask == MaskKind::generic || (have.mask == MaskKind::causal && want.mask == MaskKind::none))
    rest.mask = want.mask;
  if (have.bias == BiasKind::elementwise && want.bias == BiasKind::none) {
    rest.bias = want.bias;
    rest.dbias = want.dbias;
  }
  if (have.dropout) rest.dropout = want.dropout;
  if (have.deterministic) rest.deterministic = want.deterministic;
  return rest == want;
}

/// The space of a problem: with additions in any order, and in a fixed one.
void walk_problem(const CudaSpec& spec, const AttentionBackwardProblem& problem, CudaBackwardVisit visit) {
  AttentionSignature signature = cuda_signature_of(problem);
  for (const bool deterministic : {false, true}) {
    signature.deterministic = deterministic;
    walk_cuda_backward(spec, signature, visit);
  }
}

}  // namespace

AttentionSignature cuda_signature_of(const AttentionBackwardProblem& p) {
  AttentionSignature s = signature_of(p);
  s.data_type = p.data_type;
  const MaskWindow window = window_of(forward_of(p));
  s.mask = window.left >= 0 ? MaskKind::generic : window.right >= 0 ? MaskKind::causal : MaskKind::none;
  s.sink = s.negative_scale = false;
  s.dbias = p.dbias || p.dalibi;
  const int bits = bits_of(s.data_type);
  s.unaligned = p.unaligned || p.head_dim_qk * bits % 128 != 0 || p.head_dim_v * bits % 128 != 0;
  return s;
}

Result<Ranking> rank(const CudaSpec& spec, const AttentionBackwardProblem& problem) {
  std::vector<Candidate> candidates;
  walk_problem(spec, problem, [&](const KernelConfig& config, const CudaBackwardTile& row, const auto* refused) {
    if (refused == nullptr)
      candidates.push_back({cuda_backward_recipe(config), predicted_seconds(config, row, spec, problem)});
    return true;
  });
  if (may_copy_rows(problem)) {
    const AttentionBackwardProblem whole = with_whole_rows(problem);
    walk_problem(spec, whole, [&](const KernelConfig& config, const CudaBackwardTile& row, const auto* refused) {
      if (refused == nullptr && is_worth_copies(config))
        candidates.push_back(
            {cuda_backward_recipe(config), predicted_seconds(config, row, spec, whole) + copy_seconds(spec, problem)});
      return true;
    });
  }
  if (candidates.empty()) return std::unexpected(why_no_backward(spec, cuda_signature_of(problem)));
  best_first(candidates);
  return Ranking{std::move(candidates), "cost model"};
}

Status serves(const CudaSpec& spec, const Recipe& recipe, const AttentionBackwardProblem& problem) {
  const KernelConfig& products = recipe.main();
  const AttentionSignature want = cuda_signature_of(problem);
  const auto other = [&](std::string hint) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("recipe {} does not compute this problem", recipe_name(recipe)), std::move(hint));
  };
  if (products.operation() != Operation::attention || products.attention().family != AttentionFamily::bwd_dq_dk_dv)
    return other("a recipe whose computing step is of attention_bwd_dq_dk_dv");
  if (products.arch != spec.arch)
    return fail(ErrorCode::unsupported,
                fmt::format("recipe {} is for {}, the device is {}", recipe_name(recipe), products.arch.text(),
                            spec.arch.text()),
                "tilesmith arch lists what runs here");
  const CudaBackwardSubject subject{products, spec};
  if (const auto* rule = first_refusal(cuda_backward_rules(), subject))
    return fail(ErrorCode::unsupported,
                fmt::format("kernel {}: rule {}: {}", native_name(products), rule->name, rule->figures(subject)),
                std::string(rule->about));
  const Recipe whole = cuda_backward_recipe(products);
  if (recipe != whole) return other(recipe_name(whole));
  if (has_cuda_backward_traits(products.attention(), want)) return {};
  if (copies_rows(products, problem) &&
      has_cuda_backward_traits(products.attention(), cuda_signature_of(with_whole_rows(problem))))
    return {};
  return other(fmt::format("products like {}",
                           native_name({.arch = products.arch, .signature = want, .algorithm = products.algorithm})));
}

Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const AttentionBackwardProblem& problem) {
  RefusalList list({});
  walk_problem(spec, problem, [&](const KernelConfig& config, const CudaBackwardTile&, const auto* refused) {
    if (refused != nullptr) list.add(*refused, CudaBackwardSubject{config, spec});
    return true;
  });
  return list.take();
}

}  // namespace tilesmith
