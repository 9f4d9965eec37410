#include "codegen/gemm/hip_problem.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

namespace tilesmith::testing {
namespace {

double activation(EpilogueOp op, double x) {
  constexpr double kTanhScale = 0.7978845608028654;
  switch (op) {
    case EpilogueOp::gelu:
    case EpilogueOp::geglu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case EpilogueOp::gelu_tanh:
    case EpilogueOp::geglu_tanh:
      return 0.5 * x * (1 + std::tanh(kTanhScale * (x + 0.044715 * x * x * x)));
    case EpilogueOp::swiglu:
    case EpilogueOp::silu:
      return x / (1 + std::exp(-x));
    case EpilogueOp::glu:
    case EpilogueOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case EpilogueOp::relu:
    case EpilogueOp::reglu:
      return x < 0 ? 0 : x;
    case EpilogueOp::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

bool is_vector(EpilogueOp op) {
  return op == EpilogueOp::bias || op == EpilogueOp::bias_m || op == EpilogueOp::scale_m || op == EpilogueOp::scale_n;
}
bool is_row_vector(EpilogueOp op) {
  return op == EpilogueOp::bias_m || op == EpilogueOp::scale_m;
}

double unit_roundoff(DataType type) {
  return type == DataType::fp32 ? 0x1p-24 : type == DataType::fp16 ? 0x1p-11 : type == DataType::bf16 ? 0x1p-8 : 0;
}

/// Of element q of row i of member z, in rows of k elements.
std::size_t index(int z, int rows, int i, int q, int k) {
  return (static_cast<std::size_t>(z) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)) *
             static_cast<std::size_t>(k) +
         static_cast<std::size_t>(q);
}

}  // namespace

GemmSignature hip_gemm_signature(DataType type, DataType result, std::string_view layout, GemmEpilogue epilogue) {
  GemmSignature s;
  s.a = s.b = type;
  s.c = s.aux = result;
  s.bias = epilogue.empty() ? s.bias : result;
  s.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.layout_a = layout[0] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  s.layout_b = layout[1] == 'r' ? MatrixOrder::row : MatrixOrder::column;
  s.epilogue_ops = epilogue;
  return s;
}

double value_of(DataType type, std::uint32_t bits) {
  switch (type) {
    case DataType::fp32: {
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case DataType::bf16: {
      const std::uint32_t word = bits << 16;
      float value;
      std::memcpy(&value, &word, 4);
      return value;
    }
    case DataType::fp16: {
      const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
      const double sign = bits >> 15 ? -1 : 1;
      if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
      return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
    }
    case DataType::int32:
      return static_cast<std::int32_t>(bits);
    case DataType::int8:
      return static_cast<std::int8_t>(bits);
    case DataType::fp8:
    case DataType::bf8: {
      const int width = type == DataType::fp8 ? 3 : 2, bias = type == DataType::fp8 ? 7 : 15;
      const int exponent = static_cast<int>(bits & 127) >> width,
                mantissa = static_cast<int>(bits) & ((1 << width) - 1);
      const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - width)
                                             : std::ldexp((1 << width) + mantissa, exponent - bias - width);
      return bits & 128 ? -magnitude : magnitude;
    }
    default:
      return NAN;
  }
}

EdgedMemory::EdgedMemory(std::size_t bytes, std::size_t alignment)
    : bytes_((bytes + alignment - 1) / alignment * alignment) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  mapped_ = (bytes_ + page - 1) / page * page + page;
  base_ = static_cast<char*>(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(base_, 0xff, mapped_ - page);
  ::mprotect(base_ + mapped_ - page, page, PROT_NONE);
  data_ = base_ + mapped_ - page - bytes_;
}
EdgedMemory::~EdgedMemory() {
  ::munmap(base_, mapped_);
}

EdgedTensor::EdgedTensor(DataType t, std::int64_t batches, std::int64_t rows, std::int64_t columns, bool row_major,
                         int pad, bool aligned)
    : type(t),
      batch((row_major ? rows * (columns + pad) : columns * (rows + pad)) + (row_major ? columns : rows) + pad),
      row(row_major ? columns + pad : 1),
      column(row_major ? 1 : rows + pad),
      bytes(bits_of(t) / 8),
      memory(static_cast<std::size_t>(((batches - 1) * batch + (rows - 1) * row + (columns - 1) * column + 1) * bytes),
             aligned ? 16 : static_cast<std::size_t>(bytes)) {}

std::uint32_t EdgedTensor::bits(std::int64_t b, std::int64_t i, std::int64_t j) const {
  std::uint32_t value = 0;
  std::memcpy(&value, data() + (b * batch + i * row + j * column) * bytes, static_cast<std::size_t>(bytes));
  return value;
}

void EdgedTensor::fill(int batches, int rows, int columns, std::mt19937& random) {
  for (int b = 0; b < batches; ++b)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) {
        const float value = std::uniform_real_distribution<float>(-1, 1)(random);
        std::uint32_t word;
        std::memcpy(&word, &value, 4);
        const auto any = static_cast<std::uint32_t>(random());
        switch (type) {
          case DataType::bf16:
            word >>= 16;
            break;
          case DataType::fp16:
            word = (any & 0x83ff) | (10 + (any >> 16) % 5) << 10;
            break;
          case DataType::int8:
            word = any & 0xff;
            break;
          case DataType::fp8:
            word = (any & 0x87) | (4 + (any >> 16) % 4) << 3;
            if (any >> 28 == 0) word = any & 0x87;  // subnormals and zeros of both signs
            break;
          case DataType::bf8:
            word = (any & 0x83) | (12 + (any >> 16) % 4) << 2;
            break;
          default:
            break;
        }
        std::memcpy(data() + (b * batch + i * row + j * column) * bytes, &word, static_cast<std::size_t>(bytes));
      }
}

HipGemmProblem::HipGemmProblem(const KernelConfig& config, int m, int n, int k, int batch, std::mt19937& random)
    : signature_(std::get<GemmSignature>(config.signature)),
      tile_m_(config.algorithm.tile[0]),
      tile_n_(config.algorithm.tile[1]),
      m_(m),
      n_(n),
      k_(k),
      batch_(batch) {
  const GemmSignature& s = signature_;
  const bool aligned = config.algorithm.vector[0] > 1, wide = config.algorithm.vector[2] > 1;
  const int element = bits_of(s.a) / 8, chunk = 16 / element;
  // Aligned operands have leading dimensions of whole chunks; others begin anywhere.
  const auto pad = [&](int inner) {
    return aligned ? (chunk - inner % chunk) % chunk : 1 + static_cast<int>(random() % 3);
  };
  const bool row_a = s.layout_a == MatrixOrder::row, row_b = s.layout_b == MatrixOrder::row;
  a_ = std::make_unique<EdgedTensor>(s.a, batch, m, k, row_a, pad(row_a ? k : m), aligned);
  b_ = std::make_unique<EdgedTensor>(s.b, batch, k, n, row_b, pad(row_b ? n : k), aligned);
  const int out_n = s.epilogue_ops.gated() ? n / 2 : n;
  d_ = std::make_unique<EdgedTensor>(s.c, batch, m, out_n, true, wide ? 4 : 1, wide);
  a_->fill(batch, m, k, random);
  b_->fill(batch, k, n, random);
  for (int z = 0; z < batch; ++z) {
    for (int i = 0; i < m; ++i)
      for (int q = 0; q < k; ++q) a_values_.push_back(a_->at(z, i, q));
    for (int j = 0; j < n; ++j)
      for (int q = 0; q < k; ++q) b_values_.push_back(b_->at(z, q, j));
  }

  args_.a = {a_->data(), row_a ? a_->row : a_->column, a_->batch};
  args_.b = {b_->data(), row_b ? b_->row : b_->column, b_->batch};
  args_.d = d_->data();
  args_.d_leading = d_->row;
  args_.d_batch = d_->batch;
  args_.alpha = s.c == DataType::int32 ? 1.0f : 0.75f;
  args_.m = m;
  args_.n = n;
  args_.k = k;
  args_.batch = batch;
  args_.band = 1 + static_cast<int>(random() % 3);
  if (s.c != DataType::int32) args_.scale_b.data = &scale_;
  int columns = n;  // that the epilogue's next operation sees
  for (std::size_t i = 0; i < s.epilogue_ops.size(); ++i) {
    const EpilogueOp op = s.epilogue_ops[i];
    std::unique_ptr<EdgedTensor>& operand = operands_.emplace_back();
    if (is_gate(op)) columns /= 2;
    if (is_vector(op)) {
      const bool is_bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      const int length = is_row_vector(op) ? m : columns;
      operand = std::make_unique<EdgedTensor>(is_bias ? s.bias : DataType::fp32, batch, 1, length, true, 0, wide);
      operand->fill(batch, 1, length, random);
      args_.epilogue[i] = {operand->data(), 0, operand->batch, 0, 0};
    } else if (reads_tensor(op)) {
      operand = std::make_unique<EdgedTensor>(s.aux, batch, m, columns, true, wide ? 4 : 3, wide);
      operand->fill(batch, m, columns, random);
      args_.epilogue[i] = {operand->data(), operand->row, operand->batch, 0.5f, 0};
    } else if (op == EpilogueOp::clamp) {
      args_.epilogue[i] = {nullptr, 0, 0, -0.25f, 0.5f};
    } else if (op == EpilogueOp::amax) {
      args_.epilogue[i] = {&amax_, 0, 0, 0, 0};
    }
  }
}

int HipGemmProblem::blocks() const {
  const auto tiles = [](int size, int tile) { return (size + tile - 1) / tile; };
  return batch_ * tiles(m_, tile_m_) * tiles(n_, tile_n_);
}

std::vector<HipGemmProblem::Buffer> HipGemmProblem::buffers() const {
  std::vector<Buffer> all;
  const auto add = [&](std::string_view name, const EdgedTensor& tensor, bool written) {
    all.push_back({name, tensor.data(), tensor.memory.bytes(), written});
  };
  add("a", *a_, false);
  add("b", *b_, false);
  add("d", *d_, true);
  all.push_back({"scale_b", &scale_, sizeof scale_, false});
  if (wants_amax()) all.push_back({"amax", &amax_, sizeof amax_, true});
  for (const auto& operand : operands_)
    if (operand != nullptr) add("an operand of the epilogue", *operand, false);
  return all;
}

double HipGemmProblem::expected(int z, int i, int j, double& bound) const {
  const GemmSignature& s = signature_;
  const bool gated = s.epilogue_ops.gated();
  double v[2] = {0, 0}, magnitude = 0;
  const double factor = args_.alpha * (args_.scale_b.data != nullptr ? double{scale_} : 1.0);
  for (int e = 0; e < (gated ? 2 : 1); ++e) {
    double sizes = 0;
    for (int q = 0; q < k_; ++q) {
      const double product = a_values_[index(z, m_, i, q, k_)] * b_values_[index(z, n_, gated ? 2 * j + e : j, q, k_)];
      v[e] += product;
      sizes += std::abs(product);
    }
    v[e] *= factor;
    magnitude += sizes * factor;
  }
  bool joined = !gated;
  for (std::size_t o = 0; o < s.epilogue_ops.size(); ++o) {
    const EpilogueOp op = s.epilogue_ops[o];
    if (is_gate(op)) {
      v[0] = activation(op, v[0]) * v[1];
      joined = true;
      continue;
    }
    for (int e = 0; e < (joined ? 1 : 2); ++e) {
      const int column = joined ? j : 2 * j + e;
      double& x = v[e];
      const EdgedTensor* operand = operands_[o].get();
      if (operand == nullptr) {
        if (op == EpilogueOp::amax) continue;
        x = op == EpilogueOp::clamp ? std::min(std::max(x, -0.25), 0.5) : activation(op, x);
        continue;
      }
      const double other = is_row_vector(op) ? operand->at(z, 0, i)
                           : is_vector(op)   ? operand->at(z, 0, column)
                                             : operand->at(z, i, column);
      const bool adds = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
      x = adds ? x + other : op == EpilogueOp::add ? x + 0.5 * other : x * other;
    }
  }
  // Sums of k terms in float32, the activations' polynomials, and the rounding of the result. A gate multiplies two
  // sums.
  const double x = v[0], sums = s.c == DataType::int32 ? 0 : (k_ + 8) * 0x1p-24 * magnitude;
  bound = sums * (gated ? 2 + 2 * magnitude : 2) + 1e-5 * (s.epilogue_ops.empty() ? 0 : 1 + std::abs(x)) +
          unit_roundoff(s.c) * std::abs(x) * 1.01 + 0x1p-24;
  return x;
}

std::vector<std::string> HipGemmProblem::faults() const {
  const int out_n = signature_.epilogue_ops.gated() ? n_ / 2 : n_;
  const std::uint32_t unwritten = bits_of(signature_.c) == 32 ? 0xffffffffu : 0xffffu;
  std::vector<std::string> found;
  double largest = 0, largest_bound = 0;
  for (int z = 0; z < batch_; ++z)
    for (int i = 0; i < m_; ++i) {
      if (found.size() > 2) return found;
      for (int j = 0; j < out_n; ++j) {
        double bound = 0;
        const double wanted = expected(z, i, j, bound), got = d_->at(z, i, j);
        largest = std::max(largest, std::abs(wanted));
        largest_bound = std::max(largest_bound, bound);
        if (!(std::abs(got - wanted) <= bound))
          found.push_back(fmt::format("D[{}][{}][{}] is {}, not {} within {}", z, i, j, got, wanted, bound));
      }
      for (std::int64_t gap = out_n; gap < d_->row && (z + 1 < batch_ || i + 1 < m_); ++gap)
        if (d_->bits(z, i, gap) != unwritten) found.push_back(fmt::format("written behind row {} of {}", i, z));
    }
  if (wants_amax() && !(std::abs(amax_ - largest) <= largest_bound))
    found.push_back(fmt::format("amax is {}, not {} within {}", amax_, largest, largest_bound));
  return found;
}

bool HipGemmProblem::wants_amax() const {
  const GemmEpilogue& epilogue = signature_.epilogue_ops;
  return !epilogue.empty() && epilogue[epilogue.size() - 1] == EpilogueOp::amax;
}

void HipGemmProblem::check() const {
  const std::vector<std::string> found = faults();
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 3); ++i) ADD_FAILURE() << found[i];
}

void HipGemmProblem::clear() {
  std::memset(d_->data(), 0xff, d_->memory.bytes());
  amax_ = 0;
}

}  // namespace tilesmith::testing
