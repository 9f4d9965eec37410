// The memory that an emulated program may touch: buffers of the host, at their own addresses. An access that does not
// lie within one of them is a fault, to the byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tilesmith::amdgpu {

class DeviceMemory {
 public:
  enum class Access : std::uint8_t { read, read_write };
  /// `what` names the buffer in faults.
  void add(std::string what, const void* data, std::size_t bytes, Access access);
  /// The place of `bytes` bytes; null: they are in no buffer, or it may not be written.
  [[nodiscard]] char* find(std::uint64_t address, std::size_t bytes, bool write) const {
    if (recent_ < buffers_.size() && buffers_[recent_].holds(address, bytes, write))
      return reinterpret_cast<char*>(address);
    return find_elsewhere(address, bytes, write);
  }
  /// How the address lies to the nearest buffer, for people.
  [[nodiscard]] std::string describe(std::uint64_t address) const;

 private:
  struct Buffer {
    std::string what;
    std::uint64_t begin, end;
    bool writable;
    [[nodiscard]] bool holds(std::uint64_t address, std::size_t bytes, bool write) const {
      return address >= begin && address < end && bytes <= end - address && (writable || !write);
    }
  };
  char* find_elsewhere(std::uint64_t address, std::size_t bytes, bool write) const;

  std::vector<Buffer> buffers_;
  mutable std::size_t recent_ = 0;
};

}  // namespace tilesmith::amdgpu
