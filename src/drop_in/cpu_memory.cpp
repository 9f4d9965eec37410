#include <chrono>
#include <cstring>
#include <deque>

#include "drop_in/memory.hpp"
#include "runtime/aligned_buffer.hpp"

namespace tilesmith::drop_in {
namespace {

class CpuMemory final : public Memory {
 public:
  [[nodiscard]] Result<const void*> input(const void* from, std::size_t) override { return from; }
  [[nodiscard]] Result<void*> output(void* to, std::size_t) override { return to; }

  [[nodiscard]] Result<void*> zeros(std::size_t bytes) override {
    AlignedBuffer& buffer = owned_.emplace_back(bytes);
    if (bytes > 0) std::memset(buffer.data(), 0, bytes);
    return buffer.data();
  }

  [[nodiscard]] Status read(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }

  [[nodiscard]] Result<double> run(FunctionRef<Status(const RunOptions&)> call, Repeats repeats) override {
    using Clock = std::chrono::steady_clock;
    for (int i = 0; i < repeats.warm_up; ++i) TS_TRY(call({}));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repeats.timed; ++i) TS_TRY(call({}));
    return std::chrono::duration<double>(Clock::now() - begin).count() / repeats.timed;
  }

  [[nodiscard]] Status finish() override { return {}; }

 private:
  std::deque<AlignedBuffer> owned_;
};

}  // namespace

std::unique_ptr<Memory> open_cpu_memory() {
  return std::make_unique<CpuMemory>();
}

}  // namespace tilesmith::drop_in
