#include "choose/attention/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "choose/attention/batch_invariant.hpp"
#include "choose/attention/cuda_decode.hpp"
#include "choose/attention/cuda_few_queries.hpp"
#include "choose/attention/cuda_terms.hpp"
#include "choose/attention/gpu_signature.hpp"
#include "choose/attention/seen_queries.hpp"
#include "choose/attention/whole_rows.hpp"
#include "choose/gpu_serves.hpp"
#include "instances/attention/cuda.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

bool is_first_for(const CudaTile& row, const AttentionSignature& signature, const CudaAttentionShape& shape) {
  if (!row.first_for) return false;
  const CudaTileCondition& condition = *row.first_for;
  return (!condition.data_types ||
          std::ranges::find(*condition.data_types, signature.data_type) != condition.data_types->end()) &&
         (!condition.masked || *condition.masked == (signature.mask != MaskKind::none)) &&
         (!condition.uneven || *condition.uneven == shape.uneven) &&
         (!condition.dropout || *condition.dropout == signature.dropout) &&
         (!condition.bias || *condition.bias == signature.bias) &&
         (!condition.seqlen_k || condition.seqlen_k->holds(shape.seqlen_k));
}

/// Numbers of query heads that a tile may hold for one head of keys: 1, and all heads of a group.
std::vector<int> packings_of(const CudaAttentionShape& shape) {
  const std::int64_t group = shape.heads_kv > 0 ? shape.heads_q / shape.heads_kv : 1;
  if (group > 1 && group <= 64 && 64 % group == 0) return {1, static_cast<int>(group)};
  return {1};
}

bool can_copy_bias(const KernelConfig& config, const CudaAttentionShape& shape) {
  return config.algorithm.bias_stages == 0 || shape.bias_can_be_copied;
}

/// Few rows in pages are decode's alone: the others do not cut keys, and of how many a sequence has nothing is known.
bool suits_rows(const KernelConfig& config, const CudaAttentionShape& shape) {
  if (!is_decode(config.algorithm.pipeline)) return !shape.paged || !has_few_rows(shape) || config.attention().dropout;
  // What a bias takes is not in decode's model: beside few rows little, for they are bound by their keys.
  const bool may_have_tiles = config.attention().bias != BiasKind::elementwise;
  return config.attention().latent || suits_decode(shape) || (may_have_tiles && has_few_tiles(shape));
}

constexpr std::string_view kReadsVectorized =
    "vectorized pages are read by the pipeline decode: head dims up to 192, elements as of q, up to 64 keys a warp";

bool reads_pages(const KernelConfig& config, const CudaAttentionShape& shape) {
  if (!shape.vectorized_pages) return true;
  constexpr int kWidest = 192, kLongest = 64;  // kReadsVectors of kernels/cuda/attention/decode/layout.cuh
  const AttentionSignature& s = config.attention();
  return config.algorithm.pipeline == Pipeline::decode && !shape.narrow && s.head_dim_qk <= kWidest &&
         s.head_dim_v <= kWidest && cuda_attention_resources(config).warp_keys <= kLongest;
}

bool suits(const KernelConfig& config, const CudaAttentionShape& shape) {
  return can_copy_bias(config, shape) && suits_rows(config, shape) && reads_pages(config, shape);
}

bool is_tested(const CudaSpec& spec, Pipeline which) {
  const CudaAttentionPipeline* pipeline = spec.attention_pipeline(which);
  return pipeline != nullptr && pipeline->tested;
}

/// Whether the kernel's tiles fill the chip, as those of the problems did that the tile table was measured with. On
/// stored timings of fewer tiles the table's choice is no better than the model's.
bool fills_chip(const KernelConfig& config, const CudaSpec& spec, const CudaAttentionShape& shape) {
  return cuda_row_blocks(config, shape) >= spec.reference.sms;
}

/// Which rule stands in the way, asked of the spec's own tiles.
Error why_none(const CudaSpec& spec, const AttentionSignature& signature, const CudaAttentionShape& shape) {
  if (shape.vectorized_pages)
    return {ErrorCode::unsupported,
            fmt::format("no CUDA kernel reads vectorized pages of {}/{} {}", signature.head_dim_qk,
                        signature.head_dim_v, shape.narrow ? "elements of 8 bits" : name_of(signature.data_type)),
            std::string(kReadsVectorized)};
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

/// Whether the kernel has the problem's traits, and perhaps more. What a kernel may have for nothing: an absent bias,
/// sink or log-sum-exp is a null pointer, no dropout a threshold of zero, a missing bound a far one.
bool has_traits(const KernelConfig& config, const AttentionProblem& problem) {
  const AttentionSignature& have = config.attention();
  const AttentionSignature want = gpu_signature_of(problem);
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

}  // namespace

std::vector<Candidate> ranked_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature,
                                             const CudaAttentionShape& shape) {
  struct Ranked {
    Candidate candidate;
    // -1 the packed twin of the first choice, 0 the first choice, 1 the others, 2 those not tested. Where no model was
    // fitted, below the first choice: those for few queries that should be faster.
    int place;
  };
  std::vector<Ranked> ranked;
  std::size_t first = 0;
  bool has_first = false;
  walk_cuda_attention(spec, signature, packings_of(shape),
                      [&](const KernelConfig& config, const CudaTile& row, const auto* refused) {
                        if (refused != nullptr || !suits(config, shape)) return true;
                        if (!has_first && is_first_for(row, config.attention(), shape)) {
                          has_first = true;
                          first = ranked.size();
                        }
                        ranked.push_back({{config, predicted_seconds(config, row, spec, shape)},
                                          is_tested(spec, config.algorithm.pipeline) ? 1 : 2});
                        return true;
                      });
  // Of the rows whose conditions hold, the first is the first choice: unpacked, or packed where that saves tiles.
  if (has_first) {
    ranked[first].place = 0;
    const KernelConfig& unpacked = ranked[first].candidate.recipe.main();
    if (first + 1 < ranked.size()) {
      Ranked& twin = ranked[first + 1];
      const KernelConfig& packed = twin.candidate.recipe.main();
      const CudaAttentionPipeline* pipeline = spec.attention_pipeline(packed.algorithm.pipeline);
      // Beside packed queries in pages a sequence may have but one, whose keys are to be read once for all heads.
      const bool may_decode = signature.paged_kv && signature.mode == SequenceMode::group;
      if (packed.algorithm.pack_gqa > 1 && pipeline != nullptr &&
          (may_decode || cuda_row_blocks(packed, shape) <= pipeline->pack_gqa_share * cuda_row_blocks(unpacked, shape)))
        twin.place = -1;
    }
  }
  // The table's choice goes first. Where the model was fitted it decides; the table's choice has the advantage on
  // problems like those that the table was measured with, sequences of one length, and where predictions are equal.
  const bool is_fitted = is_fitted_for(spec, signature);
  const int least = ranked.empty() ? 1 : std::ranges::min(ranked, {}, &Ranked::place).place;
  // The table knows nothing of few queries: beside its choice, decode is taken by predictions there too.
  if (!is_fitted && least < 1 && suits_decode(shape)) {
    const double of_choice = std::ranges::find(ranked, least, &Ranked::place)->candidate.predicted_seconds;
    for (Ranked& one : ranked)
      if (one.place == 1 && is_decode(one.candidate.recipe.main().algorithm.pipeline) &&
          one.candidate.predicted_seconds < of_choice)
        one.place = least - 1;
  }
  std::ranges::stable_sort(ranked, {}, [&](const Ranked& one) {
    const double seconds = one.candidate.predicted_seconds;
    if (!is_fitted) return std::tuple(one.place, seconds, 0, 0.0);
    const bool is_choice = one.place == least && least < 1;
    const bool is_favoured =
        is_choice && !has_few_rows(shape) && !shape.ragged && fills_chip(one.candidate.recipe.main(), spec, shape);
    // Decode's model was fitted to one tile of rows: beside several it goes first where it is clearly faster.
    const bool is_doubted = is_decode(one.candidate.recipe.main().algorithm.pipeline) && !suits_decode(shape);
    const double share = spec.attention_model->first_choice_share;
    // Of the same tile with queries packed or not the one with fewer tiles reads keys less often.
    return std::tuple(one.place > 1 ? 1 : 0,
                      seconds * (is_favoured  ? share
                                 : is_doubted ? 1 / share
                                              : 1),
                      is_choice ? 0 : 1, cuda_row_blocks(one.candidate.recipe.main(), shape));
  });
  std::vector<Candidate> out;
  out.reserve(ranked.size());
  for (Ranked& r : ranked) {
    out.push_back(std::move(r.candidate));
    if (!is_fitted && r.place < 1 && !is_decode(out.back().recipe.main().algorithm.pipeline))
      out.back().source = ChoiceSource::table;
  }
  return out;
}

namespace {

/// Keys of the sequence that batch-invariant problems are ranked as: so many that rates decide and not starts. Of few,
/// tiles of fewer rows than a key head has would go first, and in a batch read the keys again for each.
constexpr std::int64_t kUsualKeys = 32768;

/// In dispatch's order: of batch-invariant problems that of one usual sequence, with the problem's own seconds.
std::vector<Candidate> candidates_for(const CudaSpec& spec, const AttentionSignature& signature,
                                      const AttentionProblem& problem) {
  const CudaAttentionShape shape = cuda_attention_shape(problem);
  if (!problem.batch_invariant) return ranked_cuda_attention(spec, signature, shape);
  CudaAttentionShape usual = cuda_attention_shape(usual_sequence_of(problem));
  usual.seqlen_k = kUsualKeys;
  std::vector<Candidate> candidates = ranked_cuda_attention(spec, signature, usual);
  walk_cuda_attention(spec, signature, packings_of(shape),
                      [&](const KernelConfig& config, const CudaTile& row, const auto*) {
                        for (Candidate& one : candidates)
                          if (one.recipe.main() == config)
                            one.predicted_seconds = predicted_seconds(config, row, spec, shape);
                        return true;
                      });
  return candidates;
}

/// Two lists in dispatch's order, as predictions rank both.
std::vector<Candidate> merged(std::vector<Candidate> first, std::vector<Candidate> second) {
  std::vector<Candidate> out;
  std::ranges::merge(first, second, std::back_inserter(out), {}, &Candidate::predicted_seconds,
                     &Candidate::predicted_seconds);
  return out;
}

bool leaves_out_hidden_tiles(const Candidate& one) {
  return cuda_attention_resources(one.recipe.main()).free_warps > 0;
}

/// The same, each kernel by the tiles that it computes.
std::vector<Candidate> seen_candidates_for(const CudaSpec& spec, const AttentionSignature& signature,
                                           const AttentionProblem& problem) {
  std::vector<Candidate> whole = candidates_for(spec, signature, problem);
  if (!has_hidden_tiles(problem)) return whole;
  std::vector<Candidate> seen = candidates_for(spec, signature, with_seen_queries(problem));
  std::erase_if(whole, leaves_out_hidden_tiles);
  std::erase_if(seen, std::not_fn(leaves_out_hidden_tiles));
  for (Candidate& one : seen) one.predicted_seconds += hidden_seconds(spec, problem);
  return merged(std::move(seen), std::move(whole));
}

/// The same and, where rows begin anywhere, the kernels that compute the problem on copies.
std::vector<Candidate> all_candidates_for(const CudaSpec& spec, const AttentionSignature& signature,
                                          const AttentionProblem& problem) {
  std::vector<Candidate> own = seen_candidates_for(spec, signature, problem);
  if (!may_copy_rows(problem)) return own;
  const AttentionProblem whole = with_whole_rows(problem);
  std::vector<Candidate> on_copies = seen_candidates_for(spec, gpu_signature_of(whole), whole);
  std::erase_if(on_copies, [](const Candidate& one) { return !is_worth_copies(one.recipe.main()); });
  for (Candidate& one : on_copies) one.predicted_seconds += copy_seconds(spec, problem);
  return merged(std::move(on_copies), std::move(own));
}

}  // namespace

Result<Ranking> rank(const CudaSpec& spec, const AttentionProblem& problem) {
  const AttentionSignature signature = gpu_signature_of(problem);
  std::vector<Candidate> candidates = all_candidates_for(spec, signature, problem);
  if (candidates.empty()) return std::unexpected(why_none(spec, signature, cuda_attention_shape(problem)));
  return Ranking{std::move(candidates), is_fitted_for(spec, signature) ? "fitted model" : "tile table"};
}

std::vector<ModelTerms> model_terms(const CudaSpec& spec, const AttentionProblem& problem) {
  const CudaAttentionShape shape =
      cuda_attention_shape(has_hidden_tiles(problem) ? with_seen_queries(problem) : problem);
  std::vector<ModelTerms> out;
  walk_cuda_attention(spec, gpu_signature_of(problem), packings_of(shape),
                      [&](const KernelConfig& config, const CudaTile& row, const auto* refused) {
                        if (refused != nullptr || !suits(config, shape) || is_decode(config.algorithm.pipeline) ||
                            few_queries_model(config, spec, shape) != nullptr)
                          return true;
                        const CudaAttentionTerms terms = cuda_attention_terms(config, row, spec, shape);
                        out.push_back({config, kCudaAttentionTerms, {terms.begin(), terms.end()}});
                        return true;
                      });
  return out;
}

Status serves(const CudaSpec& spec, const KernelConfig& config, const AttentionProblem& problem) {
  TS_TRY(is_instance(config, spec, Operation::attention, cuda_attention_rules()));
  if (!has_traits(config, problem) && !(copies_rows(config, problem) && has_traits(config, with_whole_rows(problem))))
    return other_signature(config, gpu_signature_of(problem));
  if (!reads_pages(config, cuda_attention_shape(problem)))
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not read vectorized pages", native_name(config)),
                std::string(kReadsVectorized));
  return {};
}

Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const AttentionProblem& problem) {
  const AttentionSignature signature = gpu_signature_of(problem);
  const CudaAttentionShape shape = cuda_attention_shape(problem);
  RefusalList list(all_candidates_for(spec, signature, problem));
  walk_cuda_attention(
      spec, signature, packings_of(shape), [&](const KernelConfig& config, const CudaTile&, const auto* refused) {
        if (refused != nullptr)
          list.add(*refused, CudaAttentionSubject{config, spec});
        else if (!can_copy_bias(config, shape))
          list.add(config, "suits_shape", "the copy engine takes no rows of this bias");
        else if (!reads_pages(config, shape))
          list.add(config, "suits_shape", std::string(kReadsVectorized));
        else if (!suits_rows(config, shape))
          list.add(
              config, "suits_shape",
              fmt::format("{} queries of {} heads of a key head are {} than a tile of decode", shape.seqlen_q,
                          shape.heads_q / shape.heads_kv, is_decode(config.algorithm.pipeline) ? "more" : "no more"));
        return true;
      });
  return list.take();
}

}  // namespace tilesmith
