// The checker is tested like a kernel: results of correct computations must pass, each known fault must be found, in
// every data type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/random.hpp"
#include "verify/attention/reference.hpp"
#include "verify/emulated_kernel.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

constexpr ElementType kInputTypes[] = {ElementType::fp32, ElementType::fp16, ElementType::bf16, ElementType::fp8e4m3,
                                       ElementType::fp8e5m2};

// fp8 kernels write wider types.
ElementType output_of(ElementType input, std::uint64_t seed) {
  if (size_of(input) > 1) return input;
  constexpr ElementType kWider[] = {ElementType::bf16, ElementType::fp32, ElementType::fp16};
  return kWider[seed % 3];
}

bool wide(ElementType type) {
  return size_of(type) > 1;
}

class CheckerOf : public ::testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(Types, CheckerOf, ::testing::ValuesIn(kInputTypes),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(CheckerOf, AcceptsCorrectKernels) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const CaseOptions options = random_options(GetParam(), seed);
    const RandomAttention c(options);
    const ElementType output_type = output_of(GetParam(), seed);
    const auto reference = AttentionReference::make(c.tensors, output_type, 1);
    ASSERT_TRUE(reference) << reference.error().text();
    const EmulatedResult result = emulate_kernel(
        c.tensors, output_type, {.block = seed % 2 == 0 ? 64 : 32, .splits = 1 + static_cast<std::int64_t>(seed % 3)});
    const Verdict verdict = reference->judge(result.o, result.lse);
    ASSERT_NE(verdict.outcome, Outcome::fail) << describe(options) << "\n" << verdict.reason;
  }
}

// One problem with its reference and a correct result, which faults then spoil.
struct Subject {
  explicit Subject(const CaseOptions& chosen)
      : options(chosen),
        problem(chosen),
        tensors(problem.tensors),
        output_type(output_of(chosen.type, chosen.seed)),
        reference(AttentionReference::make(tensors, output_type, 1)),
        good(emulate_kernel(tensors, output_type, kernel)) {}

  float& at(std::vector<float>& o, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return o[static_cast<std::size_t>(output_row(tensors, b, h, i) * tensors.head_dim_v + c)];
  }
  // The correct result of a problem that was misunderstood.
  EmulatedResult misread(const std::function<void(AttentionTensors&)>& change) const {
    AttentionTensors changed = tensors;
    change(changed);
    return emulate_kernel(changed, output_type, kernel);
  }
  EmulatedResult broken(KernelFault fault) const {
    EmulatedOptions faulty = kernel;
    faulty.fault = fault;
    return emulate_kernel(tensors, output_type, faulty);
  }

  CaseOptions options;
  RandomAttention problem;
  const AttentionTensors& tensors;
  ElementType output_type;
  EmulatedOptions kernel{.block = 32, .splits = 2};
  Result<AttentionReference> reference;
  EmulatedResult good;
};

struct Fault {
  const char* name;
  std::function<EmulatedResult(const Subject&)> result;
  // Which subjects the fault can show in; by default all.
  std::function<bool(const Subject&)> applies = [](const Subject&) { return true; };
};

Fault output_fault(const char* name, std::function<void(const Subject&, std::vector<float>&)> spoil) {
  return {name, [spoil = std::move(spoil)](const Subject& s) {
            EmulatedResult result = s.good;
            spoil(s, result.o);
            return result;
          }};
}

Fault lse_fault(const char* name, std::function<void(const Subject&, std::vector<float>&)> spoil) {
  return {name, [spoil = std::move(spoil)](const Subject& s) {
            EmulatedResult result = s.good;
            spoil(s, result.lse);
            return result;
          }};
}

Fault misreading(const char* name, std::function<void(AttentionTensors&)> change,
                 std::function<bool(const Subject&)> applies) {
  return {name, [change = std::move(change)](const Subject& s) { return s.misread(change); }, std::move(applies)};
}

std::vector<Fault> all_faults() {
  using Output = std::vector<float>&;
  const auto always = [](const Subject&) { return true; };
  const auto kernel_fault = [](const char* name, KernelFault fault, std::function<bool(const Subject&)> applies) {
    return Fault{name, [fault](const Subject& s) { return s.broken(fault); }, std::move(applies)};
  };
  std::vector<Fault> faults = {
      kernel_fault("last block of keys dropped", KernelFault::last_block_dropped, always),
      kernel_fault("output not rescaled", KernelFault::rescale_missing, always),
      kernel_fault("stale split", KernelFault::stale_split, always),
      kernel_fault("splits averaged", KernelFault::split_weights_equal, always),
      kernel_fault("keys beyond the end counted", KernelFault::tail_key_unmasked, always),
      kernel_fault("scale missing", KernelFault::scale_missing, always),
      kernel_fault("output accumulated in low precision", KernelFault::low_precision_sum,
                   [](const Subject& s) { return s.options.type != ElementType::fp32; }),

      misreading(
          "mask off by one to the right", [](AttentionTensors& t) { ++t.window_right; },
          [](const Subject& s) { return s.options.window_right >= 0; }),
      misreading(
          "mask off by one to the left", [](AttentionTensors& t) { ++t.window_left; },
          [](const Subject& s) { return s.options.window_left >= 0; }),
      misreading(
          "mask ignored", [](AttentionTensors& t) { t.window_left = t.window_right = -1; },
          [](const Subject& s) { return s.options.window_left >= 0 || s.options.window_right >= 0; }),
      misreading(
          "mask in the other corner", [](AttentionTensors& t) { t.mask_bottom_right = !t.mask_bottom_right; },
          [](const Subject& s) { return s.options.window_left >= 0 || s.options.window_right >= 0; }),
      misreading(
          "every query head reads the first key head",
          [](AttentionTensors& t) { t.k.strides.head = t.v.strides.head = 0; }, always),
      misreading(
          "values of the first head only", [](AttentionTensors& t) { t.v.strides.head = 0; }, always),
      misreading(
          "every sequence is the first", [](AttentionTensors& t) { t.k.strides.batch = 0; },
          [](const Subject& s) { return !s.options.group; }),
      misreading(
          "scale of base two", [](AttentionTensors& t) { t.scale *= 1.442695F; }, always),
      misreading(
          "scale off by two percent", [](AttentionTensors& t) { t.scale *= 1.02F; },
          [](const Subject& s) { return wide(s.options.type); }),
      misreading(
          "soft cap ignored", [](AttentionTensors& t) { t.soft_cap = 0; },
          [](const Subject& s) { return s.options.soft_cap != 0; }),
      misreading(
          "bias ignored", [](AttentionTensors& t) { t.bias = nullptr; },
          [](const Subject& s) { return s.options.bias; }),
      misreading(
          "bias of the first row for all", [](AttentionTensors& t) { t.bias_strides.row = 0; },
          [](const Subject& s) { return s.options.bias; }),
      misreading(
          "slopes of the first sequence for all", [](AttentionTensors& t) { t.alibi_batch_stride = 0; },
          [](const Subject& s) { return s.options.alibi; }),
      misreading(
          "sink ignored", [](AttentionTensors& t) { t.sink = nullptr; },
          [](const Subject& s) { return s.options.sink; }),
      misreading(
          "dropout ignored", [](AttentionTensors& t) { t.drop_threshold = 0; },
          [](const Subject& s) { return s.options.drop_threshold != 0; }),
      misreading(
          "dropout of another offset", [](AttentionTensors& t) { ++t.offset; },
          [](const Subject& s) { return s.options.drop_threshold != 0; }),

      output_fault("two rows swapped",
                   [](const Subject& s, Output o) {
                     for (std::int64_t c = 0; c < s.tensors.head_dim_v; ++c)
                       std::swap(s.at(o, 0, 1, 3, c), s.at(o, 0, 1, 4, c));
                   }),
      output_fault("two heads swapped",
                   [](const Subject& s, Output o) {
                     for (std::int64_t i = 0; i < sequence_of(s.tensors, 0).seqlen_q; ++i)
                       for (std::int64_t c = 0; c < s.tensors.head_dim_v; ++c)
                         std::swap(s.at(o, 0, 0, i, c), s.at(o, 0, 1, i, c));
                   }),
      output_fault("last batch skipped, old memory was zero",
                   [](const Subject& s, Output o) {
                     for (std::int64_t h = 0; h < s.tensors.heads_q; ++h)
                       for (std::int64_t i = 0; i < sequence_of(s.tensors, s.tensors.batch - 1).seqlen_q; ++i)
                         for (std::int64_t c = 0; c < s.tensors.head_dim_v; ++c)
                           s.at(o, s.tensors.batch - 1, h, i, c) = 0;
                   }),
      output_fault("a transposed tile of 8 x 8",
                   [](const Subject& s, Output o) {
                     for (std::int64_t i = 0; i < 8; ++i)
                       for (std::int64_t c = 0; c < i; ++c) std::swap(s.at(o, 0, 0, i, c), s.at(o, 0, 0, c, i));
                   }),
      output_fault("one element never written",
                   [](const Subject& s, Output o) { s.at(o, 0, 0, 5, 7) = std::numeric_limits<float>::quiet_NaN(); }),
      output_fault("the very last element never written",
                   [](const Subject&, Output o) { o.back() = std::numeric_limits<float>::quiet_NaN(); }),
      output_fault("one element overflowed",
                   [](const Subject&, Output o) { o.front() = -std::numeric_limits<float>::infinity(); }),
      output_fault("sign of one element",
                   [](const Subject& s, Output o) {
                     // The largest element of a row: where terms cancel the sign is a matter of rounding.
                     std::int64_t largest = 0;
                     for (std::int64_t c = 1; c < s.tensors.head_dim_v; ++c)
                       if (std::abs(s.at(o, 0, 2, 6, c)) > std::abs(s.at(o, 0, 2, 6, largest))) largest = c;
                     s.at(o, 0, 2, 6, largest) *= -1;
                   }),
      output_fault("all zero", [](const Subject&, Output o) { std::ranges::fill(o, 0.0F); }),
      output_fault("one row zero",
                   [](const Subject& s, Output o) {
                     for (std::int64_t c = 0; c < s.tensors.head_dim_v; ++c) s.at(o, 0, 3, 2, c) = 0;
                   }),
      output_fault("last column zero",
                   [](const Subject& s, Output o) {
                     for (std::size_t at = static_cast<std::size_t>(s.tensors.head_dim_v) - 1; at < o.size();
                          at += static_cast<std::size_t>(s.tensors.head_dim_v))
                       o[at] = 0;
                   }),
      output_fault("columns shifted by one",
                   [](const Subject&, Output o) { std::rotate(o.begin(), o.begin() + 1, o.end()); }),
      output_fault("everything too large",
                   [](const Subject& s, Output o) {
                     for (float& x : o) x *= wide(s.options.type) ? 1.1F : 1.3F;
                   }),
      output_fault("an element too few", [](const Subject&, Output o) { o.pop_back(); }),

      lse_fault("lse of base two",
                [](const Subject&, Output lse) {
                  for (float& x : lse) x *= 1.442695F;
                }),
      // Sums of 8-bit products are short, and so is what a log-sum-exp of them promises.
      lse_fault("lse off by a little",
                [](const Subject& subject, Output lse) {
                  lse[lse.size() / 2] += size_of(subject.tensors.q.type) == 1 ? 0.5F : 1e-3F;
                }),
      lse_fault("one lse never written",
                [](const Subject&, Output lse) { lse.back() = std::numeric_limits<float>::quiet_NaN(); }),
      lse_fault("lse of a neighbouring row",
                [](const Subject&, Output lse) { std::rotate(lse.begin(), lse.begin() + 1, lse.end()); }),
      lse_fault("an lse too few", [](const Subject&, Output lse) { lse.pop_back(); }),
  };
  return faults;
}

std::vector<CaseOptions> subjects(ElementType type) {
  const CaseOptions base{.type = type,
                         .batch = 2,
                         .heads_q = 4,
                         .heads_kv = 2,
                         .seqlen_q = 24,
                         .seqlen_k = 72,
                         .head_dim_qk = 32,
                         .head_dim_v = 24};
  std::vector<CaseOptions> all;
  const auto add = [&](auto change) {
    CaseOptions options = base;
    options.seed = 10 + all.size();
    change(options);
    all.push_back(options);
  };
  add([](CaseOptions&) {});
  add([](CaseOptions& o) { o.window_right = 0, o.bottom_right = true; });
  add([](CaseOptions& o) { o.window_left = 20, o.window_right = 10, o.bottom_right = true, o.heads_inside = true; });
  add([](CaseOptions& o) { o.window_left = 30, o.window_right = 60, o.bias = true, o.row_gap = 3; });
  add([](CaseOptions& o) { o.soft_cap = 2.5F, o.sink = true, o.scale = 0.35F; });
  add([](CaseOptions& o) { o.alibi = true, o.drop_threshold = 13107; });
  add([](CaseOptions& o) { o.group = true, o.seqlen_q = 60, o.seqlen_k = 120, o.batch = 3, o.seed = 18; });
  return all;
}

TEST_P(CheckerOf, FindsEveryFault) {
  const std::vector<Fault> faults = all_faults();
  std::map<std::string, int> applied;
  for (const CaseOptions& options : subjects(GetParam())) {
    const Subject subject(options);
    ASSERT_TRUE(subject.reference) << subject.reference.error().text();
    const Verdict good = subject.reference->judge(subject.good.o, subject.good.lse);
    ASSERT_TRUE(good.passed()) << describe(options) << "\n" << good.reason;
    for (const Fault& fault : faults) {
      if (!fault.applies(subject)) continue;
      const EmulatedResult result = fault.result(subject);
      if (result.o == subject.good.o && result.lse == subject.good.lse)
        continue;  // this problem does not reach the faulty line
      ++applied[fault.name];
      // The output alone must betray a fault of the output: a kernel need not write an lse.
      const bool in_output = result.o != subject.good.o;
      const Verdict verdict = subject.reference->judge(result.o, in_output ? std::span<const float>{} : result.lse);
      EXPECT_EQ(verdict.outcome, Outcome::fail) << fault.name << " in " << describe(options) << "\n"
                                                << verdict.reason << "\nmax ratio " << verdict.result_errors().max_ratio
                                                << ", mean ratio " << verdict.result_errors().mean_ratio;
      EXPECT_FALSE(verdict.reason.empty());
    }
  }
  for (const Fault& fault : faults) {
    const std::string name = fault.name;
    const bool not_in_fp32 = GetParam() == ElementType::fp32 && name == "output accumulated in low precision";
    const bool too_fine = !wide(GetParam()) && name == "scale off by two percent";
    EXPECT_TRUE(applied[name] > 0 || not_in_fp32 || too_fine) << name << " was never tried";
  }
}

TEST(Checker, FindsASingleElementThatIsFurtherOffThanRoundingExplains) {
  // One element of an otherwise correct result takes the value of another row. Check B bounds every element of these
  // types, so the fault shows wherever the two values differ by more than a few roundings, however small they are
  // beside the rest.
  int tried = 0;
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::bf16})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Subject subject(random_options(type, 500 + seed));
      ASSERT_TRUE(subject.reference) << subject.reference.error().text();
      const Float64Attention& exact = subject.reference->float64();
      const RandomStream random{seed, 5};
      const auto width = static_cast<std::size_t>(subject.tensors.head_dim_v);
      for (std::uint64_t draw = 0; draw < 40 && subject.good.o.size() > width; ++draw) {
        const std::size_t at = random.below(draw, subject.good.o.size());
        std::vector<float> o = subject.good.o;
        o[at] = o[(at + width) % o.size()];
        const double terms = static_cast<double>(exact.spread[at]) + std::abs(exact.o[at]);
        const double explained = (4 * unit_roundoff(type) + 1e-4) * terms;
        if (std::abs(static_cast<double>(o[at]) - exact.o[at]) <= explained) continue;
        ++tried;
        EXPECT_EQ(subject.reference->judge(o).outcome, Outcome::fail) << describe(subject.options) << " element " << at;
      }
    }
  EXPECT_GT(tried, 1500);
}

TEST(Checker, TheSentenceNamesCheckFigureLimitAndPlace) {
  const Subject subject(
      {.type = ElementType::bf16, .batch = 2, .seqlen_q = 24, .seqlen_k = 72, .head_dim_qk = 32, .head_dim_v = 24});
  std::vector<float> o = subject.good.o;
  subject.at(o, 1, 2, 7, 5) += 1;
  const Verdict verdict = subject.reference->judge(o);
  EXPECT_EQ(verdict.check, Check::bound);
  for (const char* word : {"check bound", "[batch 1, head 2, row 7, column 5]", "off by", "at most"})
    EXPECT_NE(verdict.reason.find(word), std::string::npos) << verdict.reason;
  EXPECT_GT(verdict.result_errors().max_abs, 0.9);
  EXPECT_GT(verdict.result_errors().max_ratio, 10);
}

TEST(Checker, MistrustsInputsThatProveNothing) {
  for (const double value : {0.0, 1e-10}) {  // zero, and what becomes zero in fp16
    RandomAttention zeros({.type = ElementType::bf16, .seqlen_q = 20, .seqlen_k = 20});
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t j = 0; j < 20; ++j)
          for (std::int64_t d = 0; d < 2; ++d) zeros.set(zeros.tensors.v, b, h, j, d, value);
    const auto reference = AttentionReference::make(zeros.tensors, ElementType::fp16, 1);
    ASSERT_TRUE(reference);
    const Verdict verdict = reference->judge(emulate_kernel(zeros.tensors, ElementType::fp16, {}).o);
    EXPECT_EQ(verdict.outcome, Outcome::mistrusted) << verdict.reason;
    EXPECT_NE(verdict.reason.find("33 % of the reference are zeros"), std::string::npos) << verdict.reason;
  }
  RandomAttention huge({});
  huge.set(huge.tensors.v, 0, 0, 0, 0, std::numeric_limits<double>::infinity());
  const auto reference = AttentionReference::make(huge.tensors, ElementType::fp32, 1);
  ASSERT_TRUE(reference);
  const Verdict verdict = reference->judge(reference->naive());
  EXPECT_EQ(verdict.outcome, Outcome::mistrusted);
  EXPECT_NE(verdict.reason.find("not finite"), std::string::npos) << verdict.reason;
}

TEST(Checker, NaiveResultsInFp32Pass) {
  // In fp32 nothing is stored narrower than it is computed: the naive result is as good as a kernel's.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomAttention c(random_options(ElementType::fp32, seed));
    const auto reference = AttentionReference::make(c.tensors, ElementType::fp32, 1);
    ASSERT_TRUE(reference);
    const Verdict verdict = reference->judge(reference->naive());
    EXPECT_NE(verdict.outcome, Outcome::fail) << verdict.reason;
  }
}

TEST(Checker, RefusesTypesWithoutATolerance) {
  RandomAttention c({.type = ElementType::fp64});
  const auto reference = AttentionReference::make(c.tensors, ElementType::fp64, 1);
  ASSERT_FALSE(reference);
  EXPECT_EQ(reference.error().code, ErrorCode::unsupported);
  EXPECT_FALSE(AttentionReference::make(RandomAttention({}).tensors, ElementType::int8));
}

}  // namespace
}  // namespace tilesmith
