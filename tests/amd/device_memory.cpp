#include "amd/device_memory.hpp"

#include <fmt/format.h>

#include <utility>

namespace tilesmith::amdgpu {

void DeviceMemory::add(std::string what, const void* data, std::size_t bytes, Access access) {
  const auto begin = reinterpret_cast<std::uint64_t>(data);
  buffers_.push_back({std::move(what), begin, begin + bytes, access == Access::read_write});
}

char* DeviceMemory::find_elsewhere(std::uint64_t address, std::size_t bytes, bool write) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i].holds(address, bytes, write)) {
      recent_ = i;
      return reinterpret_cast<char*>(address);
    }
  return nullptr;
}

std::string DeviceMemory::describe(std::uint64_t address) const {
  const Buffer* nearest = nullptr;
  std::uint64_t least = ~std::uint64_t{0};
  for (const Buffer& buffer : buffers_) {
    if (address >= buffer.begin && address < buffer.end)
      return fmt::format("byte {} of the {} bytes of {}{}", address - buffer.begin, buffer.end - buffer.begin,
                         buffer.what, buffer.writable ? "" : ", which is not written");
    const std::uint64_t distance = address < buffer.begin ? buffer.begin - address : address - buffer.end;
    if (distance < least) {
      least = distance;
      nearest = &buffer;
    }
  }
  if (nearest == nullptr || least > 1 << 20) return fmt::format("address {:#x}, in no buffer", address);
  return address < nearest->begin ? fmt::format("{} bytes before {}", least, nearest->what)
                                  : fmt::format("{} bytes behind the end of {}", least, nearest->what);
}

}  // namespace tilesmith::amdgpu
