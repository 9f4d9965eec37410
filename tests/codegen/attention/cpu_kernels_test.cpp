// Generated CPU attention kernels against the float64 reference: random problems, every instruction set this machine
// has, tensors that end where unreadable memory begins.
#include "codegen/attention/cpu.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "codegen/cpu_kernel_harness.hpp"
#include "codegen/emulated_tiles.hpp"
#include "kernels/cpu/attention/abi.h"
#include "verify/attention/float64.hpp"
#include "verify/far_bias.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

// Each test is a process of its own, and many want the same kernels.
const std::filesystem::path kStore = std::filesystem::path(TILESMITH_BINARY_DIR) / "test-store";

struct Variant {
  CpuLevel level;
  ElementType element;
  Instruction instruction;
};

constexpr Variant kVariants[] = {
    {CpuLevel::x86_64_v3, ElementType::fp32, Instruction::fma_f32},
    {CpuLevel::x86_64_v3, ElementType::bf16, Instruction::fma_f32},
    {CpuLevel::x86_64_v3, ElementType::fp16, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::fp32, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::bf16, Instruction::fma_f32},
    {CpuLevel::x86_64_v4, ElementType::fp16, Instruction::fma_f32},
    {CpuLevel::x86_64_v4_bf16, ElementType::bf16, Instruction::dpbf16},
    {CpuLevel::x86_64_amx, ElementType::bf16, Instruction::amx_bf16},
};

std::string describe(const Variant& v) {
  return fmt::format("{}_{}_{}", to_string(v.level), to_string(v.element),
                     v.instruction == Instruction::fma_f32  ? "fma"
                     : v.instruction == Instruction::dpbf16 ? "dp"
                                                            : "amx");
}

/// One past the last element a tensor of these sizes touches.
std::size_t extent(const TensorStrides& s, std::int64_t batch, std::int64_t heads, std::int64_t rows,
                   std::int64_t columns) {
  if (batch == 0 || heads == 0 || rows == 0) return 0;
  return static_cast<std::size_t>((batch - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + columns);
}

TsStrides abi_strides(const TensorStrides& s) {
  return {s.batch, s.head, s.row, s.column};
}

/// Compiles the kernel a case needs and compares its every output with the reference, which may have another bias that
/// means the same.
void expect_correct(CpuAttentionParameters parameters, const AttentionTensors& t, std::int64_t splits = 1,
                    const float* bias_of_reference = nullptr) {
  parameters.name = "test";
  parameters.cache = parameters.element;
  parameters.head_dim_qk = static_cast<int>(t.head_dim_qk);
  parameters.head_dim_v = static_cast<int>(t.head_dim_v);
  parameters.mask = t.window_left >= 0 || t.window_right >= 0;
  parameters.bias = t.bias != nullptr;
  parameters.alibi = t.alibi != nullptr;
  parameters.soft_cap = t.soft_cap != 0;
  parameters.sink = t.sink != nullptr;
  parameters.dropout = t.drop_threshold != 0;
  parameters.group_mode = t.group_mode();
  auto source = cpu_attention_source(parameters);
  ASSERT_TRUE(source) << source.error().text();
  ASSERT_EQ(source->text.find("#include"), std::string::npos);
  if (!machine_has(parameters.level)) source->text = with_emulated_tiles(source->text);
  const auto kernel = compile_kernel(*source, kStore);
  ASSERT_TRUE(kernel) << kernel.error().text();
  AttentionTensors of_reference = t;
  if (bias_of_reference != nullptr) of_reference.bias = bias_of_reference;
  const auto reference = float64_attention(of_reference, 1);
  ASSERT_TRUE(reference) << reference.error().text();

  const std::size_t size = size_of(parameters.element);
  const std::int64_t batches = t.group_mode() ? 1 : t.batch;
  const std::int64_t rows_q = t.group_mode() ? t.cu_seqlens_q[t.batch] : t.seqlen_q;
  const std::int64_t rows_k = t.group_mode() ? t.cu_seqlens_k[t.batch] : t.seqlen_k;
  const auto guarded = [&](const TensorView& view, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
    const std::size_t bytes = extent(view.strides, batches, heads, rows, columns) * size;
    auto copy = std::make_unique<GuardedBytes>(bytes);
    std::copy_n(static_cast<const std::byte*>(view.data), bytes, copy->data());
    return copy;
  };
  const auto q = guarded(t.q, t.heads_q, rows_q, t.head_dim_qk);
  const auto k = guarded(t.k, t.heads_kv, rows_k, t.head_dim_qk);
  const auto v = guarded(t.v, t.heads_kv, rows_k, t.head_dim_v);
  // The output has gaps between its rows, which must keep their bytes.
  const std::int64_t pitch = t.head_dim_v + 8;
  const TensorStrides out = {t.heads_q * rows_q * pitch, pitch, t.heads_q * pitch, 1};
  const std::size_t out_elements = extent(out, batches, t.heads_q, rows_q, t.head_dim_v);
  const GuardedBytes o(out_elements * size);
  const std::int64_t lse_rows = batches * t.heads_q * rows_q;
  const GuardedBytes lse(static_cast<std::size_t>(lse_rows) * 4);

  TsAttentionArgs a{};
  a.q = q->data();
  a.k = k->data();
  a.v = v->data();
  a.o = o.data();
  a.lse = reinterpret_cast<float*>(lse.data());
  a.bias = t.bias;
  a.alibi = t.alibi;
  a.sink = t.sink;
  a.cu_seqlens_q = t.cu_seqlens_q;
  a.cu_seqlens_k = t.cu_seqlens_k;
  a.q_strides = abi_strides(t.q.strides);
  a.k_strides = abi_strides(t.k.strides);
  a.v_strides = abi_strides(t.v.strides);
  a.o_strides = abi_strides(out);
  a.bias_strides = abi_strides(t.bias_strides);
  a.lse_strides = {t.heads_q * rows_q, rows_q, 1, 1};
  a.alibi_batch_stride = t.alibi_batch_stride;
  a.batch = t.batch;
  a.heads_q = t.heads_q;
  a.heads_kv = t.heads_kv;
  a.seqlen_q = t.seqlen_q;
  a.seqlen_k = t.seqlen_k;
  a.window_left = t.window_left;
  a.window_right = t.window_right;
  a.splits = splits;
  a.seed = t.seed;
  a.offset = t.offset;
  a.scale = t.scale;
  a.soft_cap = t.soft_cap;
  a.mask_bottom_right = t.mask_bottom_right;
  a.drop_threshold = t.drop_threshold;
  run_kernel(**kernel, &a);

  // Errors: rounding of the output, of the probabilities (to bf16 where pairs are multiplied), of the products' sums.
  const double u_out = unit_roundoff(parameters.element);
  const double u_p = parameters.instruction == Instruction::fma_f32 ? 4e-7 : unit_roundoff(ElementType::bf16);
  const double exp2_error = parameters.element == ElementType::fp32                      ? 4e-7
                            : parameters.element == ElementType::bf16 && !parameters.lse ? 1.5e-4
                                                                                         : 6e-6;
  std::set<std::size_t> written;
  double worst = 0;
  for (std::int64_t b = 0; b < t.batch; ++b) {
    const SequenceSpan s = sequence_of(t, b);
    for (std::int64_t h = 0; h < t.heads_q; ++h) {
      for (std::int64_t i = 0; i < s.seqlen_q; ++i) {
        const auto row = static_cast<std::size_t>(output_row(t, b, h, i));
        const double u_score = 4 * 6e-8 * static_cast<double>(reference->magnitude[row]);
        const auto base =
            static_cast<std::size_t>((t.group_mode() ? 0 : b * out.batch) + h * out.head + (s.q_begin + i) * out.row);
        for (std::int64_t c = 0; c < t.head_dim_v; ++c) {
          const auto index = row * static_cast<std::size_t>(t.head_dim_v) + static_cast<std::size_t>(c);
          const double expected = reference->o[index];
          const double actual = load_element(parameters.element, o.data(), base + static_cast<std::size_t>(c));
          const double bound =
              u_out * std::abs(expected) * 1.01 +
              (4 * u_p + 4 * exp2_error + 4 * u_score) * static_cast<double>(reference->spread[index]) + 1e-7;
          const double share = std::abs(actual - expected) / bound;
          ASSERT_LE(share, 1.0) << "b " << b << " h " << h << " i " << i << " c " << c << ": " << actual
                                << " instead of " << expected;
          worst = std::max(worst, share);
          written.insert(base + static_cast<std::size_t>(c));
        }
        if (parameters.lse) {
          const double expected = reference->lse[row];
          const double actual =
              a.lse[(t.group_mode() ? 0 : b * a.lse_strides.batch) + h * a.lse_strides.head + s.q_begin + i];
          if (std::isinf(expected)) {
            ASSERT_EQ(actual, expected) << "b " << b << " h " << h << " i " << i;
          } else {
            ASSERT_NEAR(actual, expected, 1e-5 + 1e-5 * std::abs(expected) + u_score)
                << "b " << b << " h " << h << " i " << i;
          }
        }
      }
    }
  }
  for (std::size_t byte = 0; byte < out_elements * size; ++byte) {
    if (written.contains(byte / size)) continue;
    ASSERT_EQ(o.data()[byte], std::byte{0xff}) << "a gap was written at byte " << byte;
  }
  ::testing::Test::RecordProperty("worst_share_of_bound", fmt::format("{:.3f}", worst));
}

/// A random case these templates cover, and tile sizes for it.
CaseOptions random_case(const Variant& variant, std::uint64_t seed, CpuAttentionParameters& p) {
  CaseOptions options = random_options(variant.element, seed);
  const RandomStream random{seed, 1234};
  const auto below = [&](std::uint64_t draw, std::uint64_t bound) {
    return static_cast<int>(random.below(draw, bound));
  };
  constexpr int kDims[] = {8, 16, 24, 32, 40, 64, 72, 128, 192, 256};
  options.head_dim_qk = kDims[below(0, std::size(kDims))];
  options.head_dim_v = kDims[below(1, std::size(kDims))];
  p.level = variant.level;
  p.element = variant.element;
  p.instruction = variant.instruction;
  const int lanes = variant.level == CpuLevel::x86_64_v3 ? 8 : 16;
  p.tile_m = variant.instruction == Instruction::amx_bf16 ? 32 * (1 + below(2, 3)) : lanes * (1 + below(2, 6));
  p.tile_n = (variant.instruction == Instruction::amx_bf16 ? 32 : 16) * (1 + below(3, 5));
  p.lse = below(4, 2) == 0;
  return options;
}

class CpuAttentionKernels : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const CpuLevel needed = std::min(GetParam().level, CpuLevel::x86_64_v4_bf16);  // tiles can be emulated
    if (!machine_has(needed)) GTEST_SKIP() << "this machine lacks " << to_string(GetParam().level);
  }
};

TEST_P(CpuAttentionKernels, RandomProblemsMatchTheReference) {
  const char* count = std::getenv("TILESMITH_RANDOM_CASES");
  for (std::uint64_t seed = 1; seed <= (count != nullptr ? std::strtoull(count, nullptr, 10) : 3); ++seed) {
    CpuAttentionParameters p;
    const CaseOptions options = random_case(GetParam(), seed, p);
    SCOPED_TRACE(fmt::format("{} tile {}x{} {}", describe(GetParam()), p.tile_m, p.tile_n, describe(options)));
    const RandomAttention problem(options);
    expect_correct(p, problem.tensors);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CpuAttentionKernels, RandomDecodeProblemsMatchTheReference) {
  const char* count = std::getenv("TILESMITH_RANDOM_CASES");
  for (std::uint64_t seed = 100; seed < 100 + (count != nullptr ? std::strtoull(count, nullptr, 10) : 2); ++seed) {
    CpuAttentionParameters p;
    CaseOptions options = random_case(GetParam(), seed, p);
    const RandomStream random{seed, 4321};
    options.heads_q = options.heads_kv * static_cast<std::int64_t>(1 + random.below(0, 20));
    options.seqlen_q = 1 + static_cast<std::int64_t>(random.below(1, 3));
    options.seqlen_k *= 4;
    const auto splits = static_cast<std::int64_t>(1 + random.below(2, 6));
    p.pipeline = Pipeline::decode;
    p.tile_m = 1;
    SCOPED_TRACE(fmt::format("{} tile_n {} splits {} {}", describe(GetParam()), p.tile_n, splits, describe(options)));
    const RandomAttention problem(options);
    expect_correct(p, problem.tensors, splits);
    if (HasFatalFailure()) return;
  }
}

/// Both pipelines of a variant, with small tiles and the lse.
std::vector<CpuAttentionParameters> both_pipelines(const Variant& variant) {
  CpuAttentionParameters flash;
  flash.level = variant.level;
  flash.element = variant.element;
  flash.instruction = variant.instruction;
  flash.tile_m = 32;
  flash.tile_n = 32;
  flash.lse = true;
  CpuAttentionParameters decode = flash;
  decode.pipeline = Pipeline::decode;
  decode.tile_m = 1;
  return {flash, decode};
}

CaseOptions small_case(const Variant& variant) {
  CaseOptions options;
  options.type = variant.element;
  options.head_dim_qk = 40;
  options.head_dim_v = 24;
  options.seqlen_q = 37;
  options.seqlen_k = 45;
  return options;
}

TEST_P(CpuAttentionKernels, EmptyAndWhollyMaskedRowsAreZero) {
  for (const CpuAttentionParameters& p : both_pipelines(GetParam())) {
    CaseOptions options = small_case(GetParam());
    options.seqlen_k = 0;
    expect_correct(p, RandomAttention(options).tensors, 3);
    options.sink = true;  // the lse is the sink
    expect_correct(p, RandomAttention(options).tensors, 3);
    options.seqlen_k = 9;  // bottom right: the first rows see nothing
    options.window_right = 0;
    options.bottom_right = true;
    expect_correct(p, RandomAttention(options).tensors, 3);
    options.sink = false;
    expect_correct(p, RandomAttention(options).tensors, 3);
    options.seqlen_q = 0;
    expect_correct(p, RandomAttention(options).tensors, 3);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CpuAttentionKernels, ScalesOfAnySignAndSharedKeysAreCorrect) {
  for (const CpuAttentionParameters& p : both_pipelines(GetParam())) {
    const RandomAttention problem(small_case(GetParam()));
    AttentionTensors tensors = problem.tensors;
    tensors.scale = -0.3F;
    expect_correct(p, tensors, 2);
    tensors.scale = 0;
    expect_correct(p, tensors, 2);
    tensors.scale = 3;  // a softmax near one-hot
    tensors.k.strides.head = tensors.v.strides.head = 0;
    tensors.k.strides.batch = tensors.v.strides.batch = 0;
    expect_correct(p, tensors, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CpuAttentionKernels, KeysThatNobodySeesDoNotLeak) {
  for (const CpuAttentionParameters& p : both_pipelines(GetParam())) {
    const bool shared = p.pipeline == Pipeline::flash && p.instruction == Instruction::amx_bf16;
    if (shared) continue;  // packed values are of all query blocks
    CaseOptions options = small_case(GetParam());
    options.window_right = 0;  // top left: keys from seqlen_q on are seen by no query
    options.seqlen_q = 20;
    RandomAttention problem(options);
    for (std::int64_t j = options.seqlen_q; j < options.seqlen_k; ++j) {
      for (std::int64_t b = 0; b < options.batch; ++b) {
        problem.set(problem.tensors.k, b, 1, j, 3, std::numeric_limits<double>::quiet_NaN());
        problem.set(problem.tensors.v, b, 1, j, 3, std::numeric_limits<double>::infinity());
      }
    }
    expect_correct(p, problem.tensors, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CpuAttentionKernels, BiasesFarFromZeroHaveTheirWeights) {
  for (CpuAttentionParameters p : both_pipelines(GetParam())) {
    p.lse = false;
    for (const float far : kFarBiases) {
      SCOPED_TRACE(far);
      CaseOptions options = small_case(GetParam());
      options.bias = true;
      RandomAttention problem(options);
      const std::vector<float> same = make_far(problem, far);
      expect_correct(p, problem.tensors, 3, same.data());
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuAttentionKernels, ::testing::ValuesIn(kVariants),
                         [](const auto& instance) { return describe(instance.param); });

}  // namespace
}  // namespace tilesmith
