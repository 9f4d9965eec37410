// What tensors of a Python library look like and where they lie, read without Python.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "capi/dlpack_exchange.hpp"
#include "capi/python/python.hpp"

namespace tilesmith::capi::python {

/// Words that are equal exactly where what they were written for is.
class Words {
 public:
  void add(std::int64_t word) {
    if (std::int64_t* const to = add_room(1)) *to = word;
  }
  /// Null where there is no more room.
  [[nodiscard]] std::int64_t* add_room(std::int64_t count) {
    if (count > kRoom - used_) {
      full_ = true;
      return nullptr;
    }
    used_ += count;
    return words_ + used_ - count;
  }
  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] std::span<const std::int64_t> get() const { return {words_, static_cast<std::size_t>(used_)}; }

 private:
  static constexpr std::int64_t kRoom = 512;  // 17 tensors of ten dimensions and more
  std::int64_t words_[kRoom];
  std::int64_t used_ = 0;
  bool full_ = false;
};

/// NumPy's arrays are structures that its C API promises to leave as they are (PyArrayObject_fields):
/// https://numpy.org/doc/stable/reference/c-api/types-and-structures.html
struct NumpyArray {
  Head head;
  char* data;
  int rank;
  std::intptr_t *shape, *strides;  // strides in bytes
  Object* base;
  Object* dtype;
  int flags;
};
constexpr int kNumpyFlags = 0x0100 | 0x0400;  // NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE

/// The tensors of one library: torch's by its table of DLPack functions, NumPy's by their structure.
struct TensorLibrary {
  const DlExchange* exchange;  // null: NumPy

  /// Adds to the words what the tensor looks like, and gives its address. False where DLPack cannot tell; Python may
  /// then have an error. Of an array, the data type is an object, which is only looked at: it has to outlive the words.
  bool look(Object* tensor, Words& words, std::int64_t& address) const {
    if (exchange == nullptr) {
      const auto& array = *reinterpret_cast<const NumpyArray*>(tensor);
      address = reinterpret_cast<std::int64_t>(array.data);
      std::int64_t* to = words.add_room(2 + 2 * std::int64_t{array.rank});
      if (to == nullptr) return false;
      *to++ = std::int64_t{array.rank} << 32 | (array.flags & kNumpyFlags);
      *to++ = reinterpret_cast<std::int64_t>(array.dtype);
      for (int d = 0; d < array.rank; ++d) *to++ = array.shape[d];
      for (int d = 0; d < array.rank; ++d) *to++ = array.strides[d];
      return true;
    }
    DlTensor described{};
    if (exchange->describe(tensor, &described) != 0) return false;
    address = address_of(described);
    std::int64_t* const to = words.add_room(words_of(described));
    if (to == nullptr) return false;
    write_look(described, to);
    return true;
  }

  /// What the words tell by its address alone; null where nothing.
  [[nodiscard]] Object* looked_at(Object* tensor) const {
    return exchange == nullptr ? reinterpret_cast<const NumpyArray*>(tensor)->dtype : nullptr;
  }

  [[nodiscard]] std::int64_t address(Object* tensor) const {
    if (exchange == nullptr) return reinterpret_cast<std::int64_t>(reinterpret_cast<const NumpyArray*>(tensor)->data);
    DlTensor described{};
    return exchange->describe(tensor, &described) == 0 ? address_of(described) : 0;
  }
};

}  // namespace tilesmith::capi::python
