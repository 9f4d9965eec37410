// The memory of a call: the CPU works in the caller's own; to a GPU it is copied and back, from and to wherever the
// caller has it, as Composable Kernel's library does.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "tilesmith/device.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::drop_in {

/// How often a call runs: the mean time of `timed` calls is told.
struct Repeats {
  int warm_up = 0;
  int timed = 1;
};

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// What the call reads, as it is when this returns.
  [[nodiscard]] virtual Result<const void*> input(const void* from, std::size_t bytes) = 0;
  /// What the call writes whole.
  [[nodiscard]] virtual Result<void*> output(void* to, std::size_t bytes) = 0;
  /// Memory of zeros that lives as long as this.
  [[nodiscard]] virtual Result<void*> zeros(std::size_t bytes) = 0;
  /// Copies memory of the call's to the host.
  [[nodiscard]] virtual Status read(void* to, const void* from, std::size_t bytes) = 0;
  /// Runs the call; seconds that it takes.
  [[nodiscard]] virtual Result<double> run(FunctionRef<Status(const RunOptions&)> call, Repeats repeats) = 0;
  /// Brings the outputs to where the caller has them.
  [[nodiscard]] virtual Status finish() = 0;

  /// The same of what is the library's own, which is kept as long as this.
  template <class T>
  [[nodiscard]] Result<const T*> keep(std::vector<T> values) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    kept_.push_back(kept);
    TS_ASSIGN(const void* there, input(kept->data(), kept->size() * sizeof(T)));
    return static_cast<const T*>(there);
  }

 private:
  std::vector<std::shared_ptr<const void>> kept_;
};

/// Work is queued on `stream`; null is the device's default stream, which callers' copies wait for.
[[nodiscard]] Result<std::unique_ptr<Memory>> open_memory(Device device, void* stream = nullptr);

[[nodiscard]] std::unique_ptr<Memory> open_cpu_memory();
[[nodiscard]] Result<std::unique_ptr<Memory>> open_cuda_memory(int device, void* stream);
[[nodiscard]] Result<std::unique_ptr<Memory>> open_hip_memory(int device, void* stream);

}  // namespace tilesmith::drop_in
