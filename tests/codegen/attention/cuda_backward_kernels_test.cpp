// The CUDA kernels of attention backward: healthy when compiled, which needs NVRTC and no GPU, and right on a Hopper
// chip, beside float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codegen/cuda_table.hpp"
#include "codegen/flatten.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {
namespace {

struct Traits {
  int head_dim = 128;
  bool right = false, left = false, group = false, soft_cap = false, bias = false, alibi = false, dropout = false;
  bool fp16 = false;

  [[nodiscard]] int tile_queries() const { return head_dim > 64 ? 64 : 128; }
  [[nodiscard]] int sum_columns() const { return head_dim > 64 ? 128 : 64; }
};

/// One kernel's text; `part` is its file below kernels/cuda/attention/backward.
Source source_of(const std::string& part, const Traits& t) {
  CudaTable table;
  table.add("kBf16", !t.fp16);
  table.add("kHeadDimQk", t.head_dim);
  table.add("kHeadDimV", t.head_dim);
  table.add("kSumColumns", t.sum_columns());
  table.add("kTileM", t.tile_queries());
  table.add("kStages", 2);
  table.add("kMaskRight", t.right);
  table.add("kMaskLeft", t.left);
  table.add("kGroupMode", t.group);
  table.add("kSoftCap", t.soft_cap);
  table.add("kBias", t.bias);
  table.add("kDbias", t.bias);
  table.add("kAlibi", t.alibi);
  table.add("kDropout", t.dropout);
  Source source;
  source.name = source.entry_symbol = "backward_kernel";
  source.language = Language::cuda;
  source.arch = "sm_90a";
  source.spill_limit_bytes = 512;
  source.options = {"-std=c++17", "-default-device"};
  source.text = table.text() + "#define TS_ENTRY backward_kernel\n\n" +
                flatten_includes(embedded_kernels(), "cuda/attention/backward/" + part).value();
  return source;
}

/// Dynamic shared memory of the five products.
unsigned shared_bytes(int head_dim) {
  return head_dim > 64 ? 166016 : 167040;
}

const char* const kFiveProducts = "hopper/dq_dk_dv.cuh";

using CudaBackwardKernels = testing::NvrtcFixture;

TEST_F(CudaBackwardKernels, AreHealthyWithEveryTrait) {
  std::vector<Source> sources;
  for (const int head_dim : {64, 128}) {
    sources.push_back(source_of("dot_do_o.cuh", {.head_dim = head_dim}));
    sources.push_back(source_of("convert_dq.cuh", {.head_dim = head_dim}));
    sources.push_back(source_of(kFiveProducts, {.head_dim = head_dim}));
    sources.back().text += fmt::format("static_assert(ts::kSharedBytes == {});\n", shared_bytes(head_dim));
    sources.push_back(source_of(kFiveProducts, {.head_dim = head_dim, .right = true, .left = true, .group = true}));
    sources.push_back(source_of(kFiveProducts, {.head_dim = head_dim, .right = true, .alibi = true}));
  }
  sources.push_back(source_of(kFiveProducts, {.head_dim = 96, .right = true, .fp16 = true}));
  // With narrow heads a tile of 128 queries leaves no registers for these.
  for (const Traits& traits : {Traits{.right = true, .soft_cap = true}, Traits{.bias = true}, Traits{.dropout = true}})
    sources.push_back(source_of(kFiveProducts, traits));
  compile_all(sources,
              [](std::size_t, const ResourceReport& report) { ASSERT_NE(report.kernel("backward_kernel"), nullptr); });
}

struct Shape {
  int batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim;
  bool causal;
};

float rounded(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}
std::vector<std::uint16_t> as_bf16(const std::vector<float>& x) {
  std::vector<std::uint16_t> out(x.size());
  std::ranges::transform(x, out.begin(),
                         [](float v) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16); });
  return out;
}

/// Inputs, forward's results and the gradients in float64; tensors are dense (batch, head, row, column).
struct Reference {
  std::vector<float> q, k, v, dout, o, lse;
  std::vector<double> dq, dk, dv;

  explicit Reference(const Shape& s) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto draw = [&](std::vector<float>& x, std::size_t count) {
      x.resize(count);
      for (float& y : x) y = rounded(normal(random));
    };
    const auto size = [&](int heads, int rows) {
      return static_cast<std::size_t>(s.batch * heads * rows) * s.head_dim;
    };
    draw(q, size(s.heads_q, s.seqlen_q));
    draw(k, size(s.heads_kv, s.seqlen_k));
    draw(v, k.size());
    draw(dout, q.size());
    o.resize(q.size());
    lse.resize(q.size() / s.head_dim);
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(k.size());
    for (int bh = 0; bh < s.batch * s.heads_q; ++bh)
      for (int i = 0; i < s.seqlen_q; ++i) add_row(s, bh, i);
  }

 private:
  void add_row(const Shape& s, int bh, int i) {
    const int group = s.heads_q / s.heads_kv, d = s.head_dim;
    const double scale = 1 / std::sqrt(static_cast<float>(d));
    const std::size_t row = static_cast<std::size_t>(bh) * s.seqlen_q + i, at = row * d;
    const std::size_t first = static_cast<std::size_t>(bh / group) * s.seqlen_k * d;
    const int keys = s.causal ? std::clamp(i + s.seqlen_k - s.seqlen_q + 1, 0, s.seqlen_k) : s.seqlen_k;
    const auto dot = [&](const float* a, const float* b) {
      double sum = 0;
      for (int c = 0; c < d; ++c) sum += static_cast<double>(a[c]) * b[c];
      return sum;
    };
    std::vector<double> p(keys), out(d);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int j = 0; j < keys; ++j) top = std::max(top, p[j] = scale * dot(&q[at], &k[first + j * d]));
    for (double& x : p) sum += x = std::exp(x - top);
    lse[row] = static_cast<float>(keys > 0 ? top + std::log(sum) : -std::numeric_limits<double>::infinity());
    for (int j = 0; j < keys; ++j) {
      p[j] /= sum;
      for (int c = 0; c < d; ++c) out[c] += p[j] * v[first + j * d + c];
    }
    for (int c = 0; c < d; ++c) o[at + c] = rounded(out[c]);
    const double delta = dot(&o[at], &dout[at]);
    for (int j = 0; j < keys; ++j) {
      const std::size_t key = first + j * d;
      const double ds = scale * p[j] * (dot(&dout[at], &v[key]) - delta);
      for (int c = 0; c < d; ++c) {
        dq[at + c] += ds * k[key + c];
        dk[key + c] += ds * q[at + c];
        dv[key + c] += p[j] * dout[at + c];
      }
    }
  }
};

class OnHopper : public testing::NvrtcFixture {
 protected:
  void SetUp() override {
    NvrtcFixture::SetUp();
    if (IsSkipped()) return;
    const auto context = CudaContext::of(0);
    if (!context) GTEST_SKIP() << context.error().text();
    if (!check_runs_on("sm_90a", (*context)->device())) GTEST_SKIP() << "the device is no Hopper chip";
    context_ = *context;
  }

  CudaKernel kernel(const std::string& part, const Traits& traits, std::size_t shared_bytes) {
    const Source source = source_of(part, traits);
    const Source* const one = &source;
    const Compiled compiled = toolchain_->compile({&one, 1}, {}).value();
    return CudaModule::load(*context_, compiled.binary).value().kernel(source.entry_symbol, shared_bytes).value();
  }
  template <class T>
  T* upload(const std::vector<T>& x) {
    buffers_.push_back(CudaBuffer::allocate(*context_, std::max<std::size_t>(256, x.size() * sizeof(T))).value());
    EXPECT_TRUE(copy_to_device(*context_, buffers_.back().data(), x.data(), x.size() * sizeof(T)).has_value());
    return static_cast<T*>(buffers_.back().data());
  }
  TsCudaTensorMap map(const void* tensor, const Shape& s, int rows, int heads, int box) {
    const auto bytes = static_cast<std::uint64_t>(2 * s.head_dim);
    const auto u64 = [](int x) { return static_cast<std::uint64_t>(x); };
    const std::array dimensions{TensorMapDimension{u64(s.head_dim), 0, 64},
                                TensorMapDimension{u64(rows), bytes, static_cast<std::uint32_t>(box)},
                                TensorMapDimension{u64(heads), bytes * u64(rows), 1},
                                TensorMapDimension{u64(s.batch), bytes * u64(rows * heads), 1}};
    TsCudaTensorMap made;
    EXPECT_TRUE(encode_tensor_map(*context_, {}, tensor, dimensions, made).has_value());
    return made;
  }
  /// Relative root mean square.
  double error(const void* device, const std::vector<double>& expected) {
    std::vector<std::uint16_t> x(expected.size());
    EXPECT_TRUE(copy_to_host(*context_, x.data(), device, 2 * x.size()).has_value());
    EXPECT_TRUE(context_->synchronize().has_value());
    double wrong = 0, all = 1e-2;  // where the gradient is 0, rounding is not measured by it
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double difference = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16) - expected[i];
      wrong += difference * difference;
      all += expected[i] * expected[i];
    }
    return std::sqrt(wrong / all);
  }
  void compare(const Shape& s);

  const CudaContext* context_ = nullptr;
  std::vector<CudaBuffer> buffers_;
};

void OnHopper::compare(const Shape& s) {
  const Reference reference(s);
  const Traits traits{.head_dim = s.head_dim, .right = s.causal};
  const auto strides = [&](int heads, int rows) {
    return TsStrides{static_cast<long long>(heads) * rows * s.head_dim, static_cast<long long>(rows) * s.head_dim,
                     s.head_dim, 1};
  };
  TsCudaAttentionBackwardArgs a{};
  a.q = upload(as_bf16(reference.q));
  a.k = upload(as_bf16(reference.k));
  a.v = upload(as_bf16(reference.v));
  a.o = upload(as_bf16(reference.o));
  a.lse = upload(reference.lse);
  a.grad.dout = upload(as_bf16(reference.dout));
  // What is not written stays a NaN.
  a.grad.dq = upload(std::vector<std::uint16_t>(reference.q.size(), 0xffff));
  a.grad.dk = upload(std::vector<std::uint16_t>(reference.k.size(), 0xffff));
  a.grad.dv = upload(std::vector<std::uint16_t>(reference.k.size(), 0xffff));
  a.q_strides = a.o_strides = a.grad.dout_strides = a.grad.dq_strides = strides(s.heads_q, s.seqlen_q);
  a.k_strides = a.v_strides = a.grad.dk_strides = a.grad.dv_strides = strides(s.heads_kv, s.seqlen_k);
  a.lse_strides = {static_cast<long long>(s.heads_q) * s.seqlen_q, s.seqlen_q, 1, 1};
  a.batch = s.batch;
  a.heads_q = s.heads_q;
  a.heads_kv = s.heads_kv;
  a.seqlen_q = s.seqlen_q;
  a.seqlen_k = s.seqlen_k;
  a.mask_bottom_right = 1;
  a.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  a.padded_q = (s.seqlen_q + 127) / 128 * 128;
  const auto rows = static_cast<std::size_t>(s.batch * s.heads_q * a.padded_q);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  a.statistics = upload(std::vector<float>(2 * rows, nan));
  a.dq_sum = upload(std::vector<float>(rows * traits.sum_columns(), nan));
  a.tile_counters = upload(std::vector<unsigned>(2, 0));
  a.row_tiles = (s.seqlen_k + 127) / 128;
  a.work_items = a.row_tiles * s.batch * s.heads_kv;
  a.section_heads = 1;
  const int tile = traits.tile_queries();
  const TsCudaBackwardMaps maps{map(a.q, s, s.seqlen_q, s.heads_q, tile), map(a.k, s, s.seqlen_k, s.heads_kv, 128),
                                map(a.v, s, s.seqlen_k, s.heads_kv, 128),
                                map(a.grad.dout, s, s.seqlen_q, s.heads_q, tile)};
  const unsigned shared = shared_bytes(s.head_dim);
  const auto blocks = [](int x) { return static_cast<unsigned>(x); };
  const CudaExtent grid{blocks(a.padded_q / 128), blocks(s.heads_q), blocks(s.batch)};
  ASSERT_TRUE(launch_with(kernel("dot_do_o.cuh", traits, 0), {.grid = grid, .block = {256, 1, 1}}, a).has_value());
  ASSERT_TRUE(
      launch_with(
          kernel(kFiveProducts, traits, shared),
          {.grid = {blocks(std::min(a.work_items, 132)), 1, 1}, .block = {384, 1, 1}, .dynamic_shared_bytes = shared},
          maps, a)
          .has_value());
  const CudaExtent tiles{blocks(a.padded_q / tile), blocks(s.heads_q), blocks(s.batch)};
  ASSERT_TRUE(launch_with(kernel("convert_dq.cuh", traits, 0), {.grid = tiles, .block = {256, 1, 1}}, a).has_value());
  EXPECT_LT(error(a.grad.dq, reference.dq), 4e-3);
  EXPECT_LT(error(a.grad.dk, reference.dk), 4e-3);
  EXPECT_LT(error(a.grad.dv, reference.dv), 4e-3);
}

TEST_F(OnHopper, GradientsAreThoseOfFloat64) {
  for (const int head_dim : {64, 96, 128}) {
    for (const bool causal : {false, true}) {
      for (const Shape& s : {Shape{2, 2, 2, 256, 256, head_dim, causal}, Shape{1, 4, 1, 200, 333, head_dim, causal},
                             Shape{1, 2, 2, 333, 200, head_dim, causal}, Shape{1, 2, 1, 1, 65, head_dim, causal},
                             Shape{1, 1, 1, 129, 1, head_dim, causal}}) {
        SCOPED_TRACE(fmt::format("head dim {}, {} x {}, causal {}", head_dim, s.seqlen_q, s.seqlen_k, causal));
        compare(s);
        buffers_.clear();
      }
    }
  }
}

}  // namespace
}  // namespace tilesmith
