// The local memory (LDS) of a workgroup, and who touched which byte when: two waves that touch one byte, one of them
// writing another value into it, with no barrier between, are a race, whatever the order in which they came.
#pragma once

#include <cstdint>
#include <vector>

#include "amd/wave.hpp"

namespace tilesmith::amdgpu {

class LocalMemory {
 public:
  explicit LocalMemory(std::size_t bytes);

  /// Fault: not within the memory.
  void check(std::uint64_t offset, std::size_t bytes, int lane) const;
  // Fault: a race.
  void read(const Wave& wave, const Instruction& in, std::uint64_t offset, std::size_t bytes, void* to);
  void write(const Wave& wave, const Instruction& in, std::uint64_t offset, std::size_t bytes, const void* from);

 private:
  // The last write and the last read of a byte. `signalled`: barriers that the wave had come to; a wave that has passed
  // more comes after it.
  struct Touch {
    const Instruction* write = nullptr;
    const Instruction* read = nullptr;
    int write_signalled = -1, read_signalled = -1;
    std::uint8_t writer = 0, reader = 0;
    bool several_readers = false;
  };
  [[noreturn]] void race(const Wave& wave, const Instruction& in, std::uint64_t offset, int other_wave,
                         const Instruction& other) const;

  std::vector<std::uint8_t> bytes_;
  std::vector<Touch> touches_;
};

}  // namespace tilesmith::amdgpu
