#include "dispatch/gemm/device_gemm.hpp"

#include <limits>

#include "base/element_type.hpp"
#include "base/random.hpp"
#include "runtime/cuda/stream.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/memory_type.hpp"

namespace tilesmith::testing {

Status DeviceGemm::fill(Matrix& matrix, DataType type, MatrixOrder order, std::int64_t rows, std::int64_t columns,
                        std::uint64_t seed, GemmValues values) {
  const GemmProblem& p = problem_;
  const ElementType element = memory_type_of(type);
  const auto count = static_cast<std::size_t>(p.batch * rows * columns);
  std::vector<float> numbers(count);
  // 8-bit floats are added up with few bits.
  const int most = bits_of(type) == 8 && type != DataType::int8 ? 1 : std::max(1, exact_magnitude(p.k + p.k2));
  if (values == GemmValues::whole)
    fill_integers(numbers, {seed, 1}, -most, most);
  else if (values == GemmValues::normal && is_floating(element))
    fill_normal(numbers, {seed, 1}, 1);
  else if (values == GemmValues::normal)
    fill_integers(numbers, {seed, 1}, -128, 127);
  else
    numbers.assign(count, std::numeric_limits<float>::quiet_NaN());
  matrix.host.resize(count * size_of(element));
  store_elements(element, numbers, matrix.host.data());
  const std::size_t before = static_cast<std::size_t>(offset_) * size_of(element);
  TS_ASSIGN(matrix.device, CudaBuffer::allocate(*context_, matrix.host.size() + before + 16));
  auto* const device = static_cast<std::byte*>(matrix.device.data()) + before;
  TS_TRY(copy_to_device(*context_, device, matrix.host.data(), matrix.host.size()));
  const bool by_rows = order == MatrixOrder::row;
  const std::int64_t leading = by_rows ? columns : rows;
  matrix.operand = {device, leading, rows * columns};
  matrix.view = {matrix.host.data(),
                 element,
                 {.batch = rows * columns, .row = by_rows ? leading : 1, .column = by_rows ? 1 : leading}};
  return {};
}

Result<DeviceGemm> DeviceGemm::create(const CudaContext& context, const GemmProblem& p, std::uint64_t seed,
                                      GemmValues values, std::int64_t offset) {
  DeviceGemm out(context, p, offset);
  TS_TRY(out.fill(out.a_, p.type_a, p.order_a, p.m, p.k, 4 * seed, values));
  TS_TRY(out.fill(out.b_, p.type_b, p.order_b, p.k, p.n, 4 * seed + 1, values));
  if (p.k2 != 0) {
    TS_TRY(out.fill(out.a2_, p.type_a, p.order_a, p.m, p.k2, 4 * seed + 2, values));
    TS_TRY(out.fill(out.b2_, p.type_b, p.order_b, p.k2, p.n, 4 * seed + 3, values));
  }
  if (p.beta) TS_TRY(out.fill(out.c_, p.type_c, p.order_d, p.m, p.n, 4 * seed + 2, GemmValues::whole));
  TS_TRY(synchronize(context, nullptr));
  if (p.beta) out.beta = 2;
  return out;
}

std::size_t DeviceGemm::d_bytes() const {
  return static_cast<std::size_t>(problem_.batch * problem_.m * problem_.n + offset_) *
         size_of(memory_type_of(problem_.type_d));
}

Result<CudaBuffer> DeviceGemm::make_d(cu::Stream stream) const {
  TS_ASSIGN(CudaBuffer d, CudaBuffer::allocate(*context_, d_bytes() + 16));
  TS_TRY(fill_bytes(*context_, d.data(), 0xff, d.bytes(), stream));
  return d;
}

Status DeviceGemm::queue(const GemmPlan& plan, const CudaBuffer& d, const RunOptions& options) const {
  GemmArguments arguments = dense_arguments(problem_);
  arguments.a = a_.operand;
  arguments.b = b_.operand;
  arguments.a2 = a2_.operand;
  arguments.b2 = b2_.operand;
  arguments.c = c_.operand;
  arguments.d =
      static_cast<std::byte*>(d.data()) + offset_ * static_cast<std::int64_t>(size_of(memory_type_of(problem_.type_d)));
  arguments.alpha = alpha;
  arguments.beta = beta;
  return plan.run(arguments, options);
}

Result<std::vector<std::byte>> DeviceGemm::fetch(const CudaBuffer& d, cu::Stream stream) const {
  const auto before = static_cast<std::size_t>(offset_) * size_of(memory_type_of(problem_.type_d));
  std::vector<std::byte> out(d_bytes() - before);
  TS_TRY(copy_to_host(*context_, out.data(), static_cast<std::byte*>(d.data()) + before, out.size(), stream));
  TS_TRY(synchronize(*context_, stream));
  return out;
}

std::string DeviceGemm::judge(const std::vector<std::byte>& d) const {
  GemmTensors tensors;
  tensors.a = a_.view;
  tensors.b = b_.view;
  tensors.a2 = a2_.view;
  tensors.b2 = b2_.view;
  tensors.c = c_.view;
  tensors.batch = problem_.batch;
  tensors.m = problem_.m;
  tensors.n = problem_.n;
  tensors.k = problem_.k;
  tensors.k2 = problem_.k2;
  tensors.alpha = alpha;
  tensors.beta = problem_.beta ? beta : 0;
  const ElementType type = memory_type_of(problem_.type_d);
  const auto reference = GemmReference::make(tensors, type, 1);
  if (!reference) return reference.error().text();
  const bool by_rows = problem_.order_d == MatrixOrder::row;
  const TensorView view{
      d.data(),
      type,
      {.batch = problem_.m * problem_.n, .row = by_rows ? problem_.n : 1, .column = by_rows ? 1 : problem_.m}};
  const Verdict verdict = reference->judge_exact(read_output(tensors, view));
  return verdict.outcome == Outcome::fail ? verdict.reason : "";
}

}  // namespace tilesmith::testing
