// The GEMM functions' device, kind of matrices and kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "drop_in/session.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith::drop_in {

/// Composable Kernel compiles a library for one kind of matrices; here a word names it.
struct GemmKind {
  DataType type = DataType::fp16;
  MatrixOrder order_a = MatrixOrder::row;
  MatrixOrder order_b = MatrixOrder::column;
  MatrixOrder order_c = MatrixOrder::row;

  /// "fp16_rcr". Error: invalid_argument.
  [[nodiscard]] static Result<GemmKind> parse(std::string_view text);
  /// Error: invalid_argument, sizes that are not positive.
  [[nodiscard]] Result<GemmProblem> problem(std::int64_t m, std::int64_t n, std::int64_t k) const;
};

class GemmSession {
 public:
  /// Errors: not_found where the device has no such kernels, and those of the device and of TILESMITH_CK_GEMM.
  [[nodiscard]] static Result<std::shared_ptr<GemmSession>> open();

  [[nodiscard]] Dispatcher& dispatcher() { return dispatcher_; }
  [[nodiscard]] Device device() const { return dispatcher_.device(); }
  [[nodiscard]] const GemmKind& kind() const { return kind_; }
  [[nodiscard]] const KernelNames& kernels() const { return kernels_; }

 private:
  GemmSession(Device device, GemmKind kind) : dispatcher_(DispatcherOptions{.device = device}), kind_(kind) {}

  Dispatcher dispatcher_;
  GemmKind kind_;
  KernelNames kernels_;
};

/// Error: not_found before dispatcher_initialize.
[[nodiscard]] Result<std::shared_ptr<GemmSession>> gemm_session();

}  // namespace tilesmith::drop_in
