// The online softmax of the CUDA templates (kernels/cuda/attention/softmax.cuh), executed on the CPU: what it makes of
// rows whose logits lie anywhere in float32's range. That proves the arithmetic, not the compiler; no GPU is needed.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "codegen/flatten.hpp"
#include "jit/cxx_toolchain.hpp"

namespace tilesmith {
namespace {

constexpr int kKeys = 16;  // a block's keys of one row
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kUnit = static_cast<double>(1.4426950408889634F);  // of logits, in units of two, as kernels have it

enum class Type { bf16, fp16, fp32, e4m3 };

/// The largest probability that a product takes as it is.
double largest_of(Type type) {
  return type == Type::fp16   ? 65504.0
         : type == Type::e4m3 ? 448.0
                              : static_cast<double>(std::numeric_limits<float>::max());
}

/// A row's probabilities block by block, the base and the sum that belong to the last, and what each block's output so
/// far is multiplied by.
struct Softmax {
  std::vector<float> p, factors;
  float peak = 0, sum = 0;
};

class CudaSoftmax : public testing::TestWithParam<Type> {
 protected:
  void SetUp() override {
    const std::string common =
        read_file(std::string(TILESMITH_SOURCE_DIR) + "/tests/codegen/cuda_emulated/common.cuh").value();
    std::vector<EmbeddedFile> files;
    for (const EmbeddedFile& file : embedded_kernels())
      files.push_back({file.path, file.path == "cuda/common/common.cuh" ? std::string_view(common) : file.text});
    const bool fp8 = GetParam() == Type::e4m3;
    Source source;
    source.name = source.entry_symbol = "softmax_of_blocks";
    source.language = Language::cpp;
    source.arch = "x86_64";
    source.options = {"-std=c++20", "-O1", "-ffp-contract=off", "-fvisibility=hidden", "-w"};
    source.text = "#include <algorithm>\n#include <cmath>\nnamespace ts::cfg {\nconstexpr int kTileN = " +
                  std::to_string(2 * kKeys * 2) +
                  ";\nconstexpr bool kBias = true, kMaskLeft = false, kFp8 = " + (fp8 ? "true" : "false") +
                  ", kBf16 = " + (GetParam() == Type::fp16 ? "false" : "true") + ";\n}\n" +
                  flatten_includes(files, "cuda/attention/softmax.cuh").value() + R"(
extern "C" __attribute__((visibility("default"))) void softmax_of_blocks(float* scores, int blocks, float* factors,
                                                                         float* peaks, float* sums) {
  ts::RowState rows{{-ts::kInfinity, -ts::kInfinity}, {0.0f, 0.0f}};
  for (int n = 0; n < blocks; ++n) {
    float (&s)[ts::kScores] = *reinterpret_cast<float (*)[ts::kScores]>(scores + n * ts::kScores);
    float factor[2];
    ts::update_softmax<false, true>(s, rows, factor, ts::kLog2e);
    for (int r = 0; r < 2; ++r) factors[2 * n + r] = factor[r];
  }
  for (int r = 0; r < 2; ++r) peaks[r] = rows.peak[r] - ts::kLift, sums[r] = rows.sum[r];
}
extern "C" __attribute__((visibility("default"))) float exponent_of(float score, float base) {
  return ts::exponent(score, ts::kLog2e, base);
}
)";
    const Source* one = &source;
    const auto compiled = toolchain_->compile({&one, 1}, {});
    ASSERT_TRUE(compiled) << compiled.error().text();
    const auto path = folder_.path() / "softmax.so";
    ASSERT_TRUE(write_new_file(path, compiled->binary));
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    softmax_ = reinterpret_cast<decltype(softmax_)>(::dlsym(library_, "softmax_of_blocks"));
    exponent_ = reinterpret_cast<decltype(exponent_)>(::dlsym(library_, "exponent_of"));
  }
  void TearDown() override {
    if (library_ != nullptr) ::dlclose(library_);
  }

  /// Of two rows of as many logits, of which each has a thread's row.
  [[nodiscard]] std::vector<Softmax> run(const std::vector<float> (&logits)[2]) const {
    const int blocks = static_cast<int>(logits[0].size()) / kKeys;
    std::vector<float> scores(static_cast<std::size_t>(2 * kKeys * blocks)),
        factors(static_cast<std::size_t>(2 * blocks));
    const auto place = [](int row, int key) {
      return static_cast<std::size_t>(key / kKeys * 2 * kKeys + key % kKeys / 2 * 4 + 2 * row + key % 2);
    };
    for (int row = 0; row < 2; ++row)
      for (int key = 0; key < blocks * kKeys; ++key)
        scores[place(row, key)] = logits[row][static_cast<std::size_t>(key)];
    float peaks[2], sums[2];
    softmax_(scores.data(), blocks, factors.data(), peaks, sums);
    std::vector<Softmax> result(2);
    for (int row = 0; row < 2; ++row) {
      Softmax& one = result[static_cast<std::size_t>(row)];
      for (int key = 0; key < blocks * kKeys; ++key) one.p.push_back(scores[place(row, key)]);
      for (int n = 0; n < blocks; ++n) one.factors.push_back(factors[static_cast<std::size_t>(2 * n + row)]);
      one.peak = peaks[row], one.sum = sums[row];
    }
    return result;
  }

  /// A row agrees with the softmax in float64 of logits that are rounded where float32 rounds them: in units of two.
  void check(const std::vector<float>& logits, const Softmax& got) const {
    std::vector<double> weights;
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const float x : logits) {
      const double exact = static_cast<double>(x) * kUnit;
      const auto rounded = static_cast<float>(exact);
      weights.push_back(std::abs(rounded) > 0x1p20F ? static_cast<double>(rounded) : exact);
      most = std::max(most, weights.back());
    }
    for (double& w : weights) sum += w = std::isinf(most) ? 0.0 : std::exp2(w - most);
    ASSERT_TRUE(std::isfinite(got.sum)) << got.sum;
    if (sum == 0) {
      EXPECT_EQ(got.sum, 0.0F);
      return;
    }
    ASSERT_GT(got.sum, 0.0F);
    const double scale = 1.0 / static_cast<double>(got.sum);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      ASSERT_LE(static_cast<double>(got.p[i]), largest_of(GetParam())) << logits[i];
      double p = static_cast<double>(got.p[i]) * scale;
      for (std::size_t n = i / kKeys + 1; n < got.factors.size(); ++n) p *= static_cast<double>(got.factors[n]);
      ASSERT_NEAR(p, weights[i] / sum, 1e-4 * weights[i] / sum + 1e-7) << "key " << i << ", logit " << logits[i];
    }
    const double lse = most + std::log2(sum);
    EXPECT_NEAR(static_cast<double>(got.peak) + std::log2(static_cast<double>(got.sum)), lse,
                1e-4 + 2e-7 * std::abs(lse));
  }
  void check_both(const std::vector<float> (&logits)[2]) const {
    const std::vector<Softmax> got = run(logits);
    for (std::size_t row = 0; row < 2; ++row) {
      check(logits[row], got[row]);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  std::unique_ptr<CxxToolchain> toolchain_ = CxxToolchain::find().value();
  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-cuda-softmax-").value();
  void* library_ = nullptr;
  void (*softmax_)(float*, int, float*, float*, float*) = nullptr;
  float (*exponent_)(float, float) = nullptr;
};

constexpr float kFar[] = {-1e9F, -1e10F, -1e12F, -2e9F, -1e8F,  -1e7F,  -1e38F,
                          1e9F,  2e9F,   1e12F,  1e38F, 7.3e5F, -7.3e5F};

TEST_P(CudaSoftmax, RowsOfOneLargeLogitAreMeans) {
  for (const float far : kFar) {
    SCOPED_TRACE(far);
    check_both({std::vector<float>(4 * kKeys, far), std::vector<float>(4 * kKeys, 0.25F)});
    if (HasFatalFailure()) return;
  }
}

// What overflows in units of two is as -infinity, and the row is empty (docs/cuda_kernels.md).
TEST_P(CudaSoftmax, RowsOfTheLeastNumbersAreEmpty) {
  for (const float least : {-3e38F, std::numeric_limits<float>::lowest(), -kInfinity})
    check_both({std::vector<float>(2 * kKeys, least), std::vector<float>(2 * kKeys, 1.0F)});
}

TEST_P(CudaSoftmax, RandomRowsWithLargeLogits) {
  std::mt19937 random(20261129);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  for (int turn = 0; turn < 2000; ++turn) {
    SCOPED_TRACE(turn);
    std::vector<float> logits[2];
    const std::size_t blocks = 1 + below(5);
    for (std::vector<float>& row : logits) {
      const float far = kFar[below(std::size(kFar))], other = kFar[below(std::size(kFar))];
      // Of each block: small ones, one that is far, either, two that are far, hidden keys, or ordinary ones beside one
      // far.
      for (std::size_t n = 0; n < blocks; ++n) {
        const std::size_t kind = below(6);
        for (int key = 0; key < kKeys; ++key) {
          const float small = std::normal_distribution<float>(0.0F, 3.0F)(random);
          const bool first = below(2) == 0;
          row.push_back(kind == 0   ? small
                        : kind == 1 ? far + small
                        : kind == 2 ? (first ? far + small : small)
                        : kind == 3 ? (first ? far : other)
                        : kind == 4 ? -kInfinity
                                    : (key == 3 ? far : small));
        }
      }
    }
    check_both(logits);
    if (HasFatalFailure()) return;
  }
}

// Ordinary rows keep their bits: the exponent is one fused multiply-add.
TEST_P(CudaSoftmax, OrdinaryRowsHaveFusedExponents) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 300.0F);
  for (int turn = 0; turn < 1000; ++turn) {
    const float base = normal(random), score = base - std::abs(normal(random));
    EXPECT_EQ(exponent_(score, base), std::fma(score, static_cast<float>(kUnit), -base));
  }
  EXPECT_EQ(exponent_(-1e9F, -1e9F * static_cast<float>(kUnit)), 0.0F);
}

constexpr std::array kNames{"bf16", "fp16", "fp32", "e4m3"};
INSTANTIATE_TEST_SUITE_P(Types, CudaSoftmax, testing::Values(Type::bf16, Type::fp16, Type::fp32, Type::e4m3),
                         [](const auto& one) { return std::string(kNames[static_cast<std::size_t>(one.param)]); });

}  // namespace
}  // namespace tilesmith
