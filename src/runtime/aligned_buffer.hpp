// Memory for tensors and workspaces: 64-byte aligned, grown by replacement, never zeroed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace tilesmith {

/// huge: the system is asked for pages of 2 MiB where a buffer takes half of one or more. For memory that kernels pass
/// many times; tensors lie where callers have them.
enum class Pages : std::uint8_t { usual, huge };

class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes) { reserve(bytes); }

  /// At least `bytes`; the contents are lost when the buffer must grow. Throws std::bad_alloc.
  void reserve(std::size_t bytes, Pages pages = Pages::usual) {
    if (bytes <= bytes_) return;
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const bool huge = pages == Pages::huge && bytes >= kHugePage / 2;
    const std::size_t alignment = huge ? kHugePage : kAlignment;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    memory_.reset();
    bytes_ = 0;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    if (!memory_) throw std::bad_alloc();
    bytes_ = rounded;
    if (huge) ::madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // if the system refuses, the pages have the usual size
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
