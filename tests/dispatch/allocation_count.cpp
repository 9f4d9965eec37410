#include "dispatch/allocation_count.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t count = 0;

void* counted(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void* counted(std::size_t bytes, std::align_val_t alignment) {
  ++count;
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
}  // namespace

std::size_t tilesmith::testing::allocations() {
  return count;
}

// In libstdc++ the array and nothrow forms call the plain ones. A sanitizer's runtime brings forms of its own that do
// not, so every form that the library uses is replaced: what one allocates another frees.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, alignment);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
