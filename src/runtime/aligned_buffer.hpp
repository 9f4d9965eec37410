// Memory for tensors and workspaces: 64-byte aligned, grown by replacement, never zeroed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace tilesmith {

class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes) { reserve(bytes); }

  /// At least `bytes`; the contents are lost when the buffer must grow. Throws std::bad_alloc.
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset();
    bytes_ = 0;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (!memory_) throw std::bad_alloc();
    bytes_ = rounded;
  }

  [[nodiscard]] std::byte* data() { return memory_.get(); }
  [[nodiscard]] const std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace tilesmith
