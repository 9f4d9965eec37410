// An array whose elements nothing sets to zero first: to clear a large one takes one thread longer than all threads
// take to fill it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace tilesmith {

template <class T>
class RawArray {
 public:
  RawArray() = default;
  explicit RawArray(std::size_t size) : values_(std::make_unique_for_overwrite<T[]>(size)), size_(size) {}

  [[nodiscard]] T* data() { return values_.get(); }
  [[nodiscard]] std::span<T> span() { return {values_.get(), size_}; }
  [[nodiscard]] std::span<const T> span() const { return {values_.get(), size_}; }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t size_ = 0;
};

}  // namespace tilesmith
