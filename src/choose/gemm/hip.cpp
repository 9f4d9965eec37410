#include "choose/gemm/hip.hpp"

#include <fmt/format.h>

#include "choose/gemm/gpu_signature.hpp"
#include "choose/gemm/hip_model.hpp"
#include "choose/gpu_serves.hpp"
#include "instances/gemm/hip.hpp"
#include "problem/gemm/transpose.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Why an instance of the problem's signature does not compute it; empty: it does.
std::string_view obstacle(const KernelConfig& config, const GemmProblem& p) {
  const auto& vector = config.algorithm.vector;
  if (p.unaligned && (vector[0] > 1 || vector[2] > 1)) return "its accesses are wider than the problem's alignment";
  if (vector[2] > 1 && p.n % kHipGemmRun != 0) return "it accesses D by runs of four, and n is no multiple of that";
  return {};
}

/// Every row of the tile table with every width of access: visit(config, rule that refuses it or null).
template <class Visit>
void walk(const HipSpec& spec, const GemmSignature& signature, Visit&& visit) {
  const HipGemmTable* table = spec.gemm_table(signature.a);
  if (table == nullptr) return;
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const HipGemmTile& tile : table->tiles) {
    config.algorithm = hip_gemm_algorithm(spec, signature, tile);
    for (const HipGemmWidths& widths : hip_gemm_widths(signature)) {
      config.algorithm.vector = widths;
      visit(config, first_refusal(hip_gemm_rules(), HipGemmSubject{config, spec}));
    }
  }
}

std::vector<Candidate> candidates_of(const HipSpec& spec, const GemmSignature& signature, const GemmProblem& p) {
  std::vector<Candidate> candidates;
  Algorithm taken;  // with its widths left out
  walk(spec, signature, [&](const KernelConfig& config, const Rule<HipGemmSubject>* refused) {
    if (refused != nullptr || !obstacle(config, p).empty()) return;
    Algorithm tile = config.algorithm;
    tile.vector = {};
    if (tile == taken) return;
    taken = tile;
    candidates.push_back({.recipe = config, .predicted_seconds = predicted_seconds(config, spec, p)});
  });
  best_first(candidates);
  return candidates;
}

Error none_for(const HipSpec& spec, const GemmSignature& signature) {
  Error error{ErrorCode::unsupported,
              fmt::format("no kernel of {} multiplies {} matrices", spec.arch.text(), name_of(signature.a)),
              "tilesmith arch and docs/amd.md say which types a chip has"};
  walk(spec, signature, [&](const KernelConfig& config, const Rule<HipGemmSubject>* rule) {
    if (rule == nullptr || error.hint == rule->about) return;
    error.message = fmt::format("no kernel of {} computes this problem: rule {}: {}", spec.arch.text(), rule->name,
                                rule->figures(HipGemmSubject{config, spec}));
    error.hint = rule->about;
  });
  return error;
}

}  // namespace

Result<Ranking> rank(const HipSpec& spec, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  std::vector<Candidate> candidates = candidates_of(spec, signature, problem);
  if (candidates.empty()) return std::unexpected(none_for(spec, signature));
  return Ranking{std::move(candidates), "model"};
}

Status serves(const HipSpec& spec, const KernelConfig& config, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_TRY(is_instance(config, spec, Operation::gemm, hip_gemm_rules()));
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  if (std::get<GemmSignature>(config.signature) != signature) return other_signature(config, signature);
  if (const std::string_view why = obstacle(config, problem); !why.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not suit a GEMM of {} x {} x {}: {}", native_name(config), problem.m,
                            problem.n, problem.k, why),
                "fewer elements at a time (vector)");
  return {};
}

Result<std::vector<Refusal>> refusals(const HipSpec& spec, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  RefusalList list(candidates_of(spec, signature, problem));
  walk(spec, signature, [&](const KernelConfig& config, const Rule<HipGemmSubject>* rule) {
    if (rule != nullptr)
      list.add(*rule, HipGemmSubject{config, spec});
    else if (const std::string_view why = obstacle(config, problem); !why.empty())
      list.add(config, "suits_shape", std::string(why));
    else
      list.add(config, "wider_accesses_suit", "the same kernel with wider accesses is a candidate");
  });
  return list.take();
}

}  // namespace tilesmith
