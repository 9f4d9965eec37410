// What ranking a problem that was never seen costs on a CUDA device's host: processor time of one thread for all
// candidates of each of many drawn problems, by operation and family; the median problem, nine of ten, the worst and
// which it is, and the digest of all orders, by which two builds are compared. A problem's time is the least of a few
// turns. Of all problems of an operation also 99 of 100, and the same where each is the first of its signature. No
// device is needed.
//
//   rank_bench [problems of an operation] [seed] [architecture]
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/sha256.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/attention_backward/cuda.hpp"
#include "choose/conv/cuda.hpp"
#include "choose/gemm/cuda.hpp"
#include "problem/operations.hpp"
#include "tune/random_shapes.hpp"

namespace {

using namespace tilesmith;

constexpr int kTurns = 5;

/// False unless all of the text is a number.
template <class Number>
bool reads(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

double processor_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// As a device's backends rank: what the rules said of a signature is kept.
CudaGemmKept gemm_kept;
Result<Ranking> ranked(const CudaSpec& spec, const GemmProblem& problem) {
  return rank(spec, problem, &gemm_kept);
}
CudaConvKept conv_kept;
Result<Ranking> ranked(const CudaSpec& spec, const ConvProblem& problem) {
  return rank(spec, problem, {&conv_kept, &gemm_kept});
}
template <class Problem>
Result<Ranking> ranked(const CudaSpec& spec, const Problem& problem) {
  return rank(spec, problem);
}

struct Timing {
  double seconds = 0, first_seconds = 0;
  std::size_t candidates = 0;
  std::string problem;
};

void report(const std::string& what, std::vector<Timing>& timings, const std::string& orders) {
  std::ranges::sort(timings, {}, &Timing::seconds);
  const Timing &median = timings[timings.size() / 2], &worst = timings.back();
  double candidates = 0;
  for (const Timing& timing : timings) candidates += static_cast<double>(timing.candidates);
  const Timing& nine_of_ten = timings[timings.size() * 9 / 10];
  fmt::print(
      "{:<30}{:>6} problems{:>6.0f} candidates{:>8.1f} us, of nine of ten{:>8.1f}, at worst{:>8.1f}  orders {}\n", what,
      timings.size(), candidates / static_cast<double>(timings.size()), 1e6 * median.seconds, 1e6 * nine_of_ten.seconds,
      1e6 * worst.seconds, to_hex(sha256(orders)).substr(0, 16));
  fmt::print("    {}\n", worst.problem);
}

/// "median 9.1 us, 99 of 100 20.2, at worst 30.1".
std::string quantiles(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return fmt::format("median {:.1f} us, 99 of 100 {:.1f}, at worst {:.1f}", 1e6 * seconds[seconds.size() / 2],
                     1e6 * seconds[seconds.size() * 99 / 100], 1e6 * seconds.back());
}

template <class Problem>
void rank_all(const CudaSpec& spec, const std::map<std::string, std::vector<Problem>>& by_family) {
  std::vector<double> all, all_first;
  for (const auto& [family, problems] : by_family) {
    std::vector<Timing> timings;
    std::string orders;
    for (const Problem& problem : problems) {
      Timing timing{.seconds = 1, .first_seconds = 1, .problem = identity_of(problem)};
      for (int turn = 0; turn < kTurns; ++turn) {
        const double begin = processor_seconds();
        const Result<Ranking> ranking = ranked(spec, problem);
        const double middle = processor_seconds();
        const Result<Ranking> first = rank(spec, problem);
        timing.seconds = std::min(timing.seconds, middle - begin);
        timing.first_seconds = std::min(timing.first_seconds, processor_seconds() - middle);
        if (turn > 0) continue;
        orders += timing.problem + '\n';
        if (!ranking) {
          orders += ranking.error().text() + '\n';
          continue;
        }
        timing.candidates = ranking->candidates.size();
        for (const Candidate& candidate : ranking->candidates)
          orders += fmt::format("{} {}\n", recipe_name(candidate.recipe), candidate.predicted_seconds);
      }
      all.push_back(timing.seconds);
      all_first.push_back(timing.first_seconds);
      timings.push_back(std::move(timing));
    }
    report(family, timings, orders);
  }
  fmt::print("  all: {}; the first of their signatures: {}\n", quantiles(std::move(all)),
             quantiles(std::move(all_first)));
}

template <class Op>
std::map<std::string, std::vector<typename Op::Problem>> drawn(int count, std::uint64_t seed,
                                                               const std::vector<DataType>& types) {
  const auto found = draw_problems<Op>({.count = count, .seed = seed, .types = types});
  if (!found) {
    fmt::print(stderr, "{}\n", found.error().text());
    std::exit(1);
  }
  std::map<std::string, std::vector<typename Op::Problem>> out;
  for (const auto& one : *found) out[fmt::format("{} {}", Op::kName, one.family)].push_back(one.problem);
  return out;
}

/// The drawn convolutions by direction too; one of three with a third coordinate, one of four in groups of few
/// channels, one of five with a bias and an activation.
std::map<std::string, std::vector<ConvProblem>> drawn_convolutions(int count, std::uint64_t seed,
                                                                   const std::vector<DataType>& types) {
  ShapeRandom random(seed);
  std::map<std::string, std::vector<ConvProblem>> out;
  for (const auto& [family, problems] : drawn<Conv>(count, seed, types))
    for (ConvProblem p : problems) {
      std::string kind = family;
      if (random.next() % 3 == 0) {
        kind += " 3-D";
        p.in_d = random.size(2, 16);
        p.filter_d = 1 + 2 * static_cast<std::int64_t>(random.next() % 2);
        p.pad_d = p.pad_high_d = p.filter_d / 2;
      }
      if (random.next() % 4 == 0) {
        kind = "conv few channels";
        p.groups = random.size(8, 64, 8);
        p.c = p.k = random.size(2, 32, 2);
      }
      if (p.direction != ConvDirection::backward_weight && random.next() % 5 == 0) {
        p.epilogue.push_back(EpilogueOp::bias);
        p.epilogue.push_back(EpilogueOp::relu);
      }
      if (validate(p)) out[fmt::format("{} {}", kind, name_of(p.direction))].push_back(p);
    }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 500;
  std::uint64_t seed = 1;
  if ((argc > 1 && (!reads(argv[1], count) || count < 1)) || (argc > 2 && !reads(argv[2], seed)) || argc > 4) {
    fmt::print(stderr, "usage: rank_bench [problems of an operation, 1 or more] [seed] [architecture]\n");
    return 2;
  }
  const std::string arch = argc > 3 ? argv[3] : "sm_90a";
  const Result<std::vector<CudaSpec>> specs = load_cuda_specs();
  if (!specs) {
    fmt::print(stderr, "{}\n", specs.error().text());
    return 1;
  }
  const auto spec = std::ranges::find_if(*specs, [&](const CudaSpec& one) { return one.arch.text() == arch; });
  if (spec == specs->end()) {
    fmt::print(stderr, "no CUDA architecture {}; there are", arch);
    for (const CudaSpec& one : *specs) fmt::print(stderr, " {}", one.arch.text());
    fmt::print(stderr, "\n");
    return 2;
  }
  rank_all(*spec, drawn_convolutions(count, seed, {DataType::bf16, DataType::fp16, DataType::fp32, DataType::int8}));
  rank_all(*spec, drawn<Gemm>(count, seed, {DataType::bf16, DataType::fp8, DataType::fp32, DataType::int8}));
  rank_all(*spec, drawn<AttentionFwd>(count, seed, {DataType::bf16, DataType::fp16}));
  rank_all(*spec, drawn<AttentionBwd>(count, seed, {DataType::bf16, DataType::fp16}));
}
