#include "amd/local_memory.hpp"

#include <cstring>

#include "amd/fault.hpp"

namespace tilesmith::amdgpu {

LocalMemory::LocalMemory(std::size_t bytes) : bytes_(bytes), touches_(bytes) {
  for (std::size_t i = 0; i < bytes; ++i) bytes_[i] = static_cast<std::uint8_t>(kPoison >> (8 * (i % 4)));
}

void LocalMemory::check(std::uint64_t offset, std::size_t bytes, int lane) const {
  if (offset > bytes_.size() || bytes > bytes_.size() - offset)
    fault("lane {} accesses {} bytes at {} of {} bytes of local memory", lane, bytes, offset, bytes_.size());
}

void LocalMemory::race(const Wave& wave, const Instruction& in, std::uint64_t offset, int other_wave,
                       const Instruction& other) const {
  fault(
      "a race in local memory, byte {}: wave {} with '{}' at {:#x} and wave {} with '{}' at {:#x}, without a barrier "
      "between them",
      offset, wave.number, in.text, in.address, other_wave, other.text, other.address);
}

void LocalMemory::read(const Wave& wave, const Instruction& in, std::uint64_t offset, std::size_t bytes, void* to) {
  std::memcpy(to, bytes_.data() + offset, bytes);
  const auto self = static_cast<std::uint8_t>(wave.number);
  for (std::size_t i = 0; i < bytes; ++i) {
    Touch& touch = touches_[offset + i];
    if (touch.write_signalled >= wave.barriers_passed && touch.writer != self)
      race(wave, in, offset + i, touch.writer, *touch.write);
    if (touch.read_signalled < wave.barriers_signalled) {
      touch.read_signalled = wave.barriers_signalled;
      touch.several_readers = false;
      touch.reader = self;
      touch.read = &in;
    } else if (touch.reader != self) {
      touch.several_readers = true;
    }
  }
}

void LocalMemory::write(const Wave& wave, const Instruction& in, std::uint64_t offset, std::size_t bytes,
                        const void* from) {
  const auto self = static_cast<std::uint8_t>(wave.number);
  const auto* values = static_cast<const std::uint8_t*>(from);
  for (std::size_t i = 0; i < bytes; ++i) {
    Touch& touch = touches_[offset + i];
    const bool written = touch.write_signalled >= wave.barriers_passed;
    // Waves may write the same: tiles with fewer chunks than threads are brought several times.
    const bool same = written && bytes_[offset + i] == values[i];
    if (written && touch.writer != self && !same) race(wave, in, offset + i, touch.writer, *touch.write);
    if (touch.read_signalled >= wave.barriers_passed && (touch.reader != self || touch.several_readers) && !same)
      race(wave, in, offset + i, touch.reader, *touch.read);
    if (!same || touch.writer == self) {
      touch.writer = self;
      touch.write_signalled = wave.barriers_signalled;
      touch.write = &in;
    }
    bytes_[offset + i] = values[i];
  }
}

}  // namespace tilesmith::amdgpu
