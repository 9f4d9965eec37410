// The state of a wave: its registers, and what its memory instructions have still to do.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "amd/chip.hpp"
#include "amd/device_memory.hpp"
#include "amd/instruction.hpp"

namespace tilesmith::amdgpu {

inline constexpr int kLanes = 64;  ///< of every row; a wave of 32 leaves the upper half unused
/// A vector register.
using Row = std::array<std::uint32_t, kLanes>;

/// What registers and memory hold before anything is written: signalling NaNs as float32, bf16 (upper half) and fp16
/// (lower half), and no address.
inline constexpr std::uint32_t kPoison = 0x7fa57da5;

class LocalMemory;

/// A memory instruction on its way. It is done when its wave waits for it, or at any time before.
struct Transfer {
  using Do = void (*)(Wave&, Transfer&);
  Do perform;
  const Instruction* instruction;
  std::uint64_t lanes;                                      ///< that take part
  int words = 1;                                            ///< of a lane, each place
  std::array<std::array<std::uint64_t, kLanes>, 2> places;  ///< addresses, or offsets in local memory
  int parts = 1;                                            ///< of `places` that are used
  std::vector<Row> data;                                    ///< of stores
};

class Wave {
 public:
  enum class State : std::uint8_t { running, at_barrier, ended };

  Wave(const Chip& wave_chip, int wave_lanes, LocalMemory& wave_local, const DeviceMemory& wave_memory)
      : chip(wave_chip), lanes(wave_lanes), local(wave_local), memory(wave_memory), vector_(2 * kAccumulation) {}

  // Scalar registers. Words of a pair follow one another; a wave of 32 has masks of one word.
  [[nodiscard]] std::uint32_t scalar(int index) const {
    if (index < kScalars) return scalar_[static_cast<std::size_t>(index)];
    return index == kScc ? scc : index == kVccZ ? mask(kVcc) == 0 : exec() == 0;
  }
  void set_scalar(int index, std::uint32_t value) {
    if (index == kNull) return;
    scalar_[static_cast<std::size_t>(index)] = value;
  }
  [[nodiscard]] std::uint64_t scalar_pair(int index) const {
    if (index == kNull) return 0;
    return scalar(index) | static_cast<std::uint64_t>(scalar(index + 1)) << 32;
  }
  void set_scalar_pair(int index, std::uint64_t value) {
    if (index == kNull) return;
    set_scalar(index, static_cast<std::uint32_t>(value));
    set_scalar(index + 1, static_cast<std::uint32_t>(value >> 32));
  }
  /// A bit a lane.
  [[nodiscard]] std::uint64_t mask(int index) const { return lanes == 64 ? scalar_pair(index) : scalar(index); }
  void set_mask(int index, std::uint64_t value) {
    if (lanes == 64)
      set_scalar_pair(index, value);
    else
      set_scalar(index, static_cast<std::uint32_t>(value));
  }
  [[nodiscard]] std::uint64_t exec() const { return mask(kExec); }
  [[nodiscard]] std::uint64_t all_lanes() const { return lanes == 64 ? ~std::uint64_t{0} : 0xffffffffu; }

  [[nodiscard]] Row& row(int index) { return vector_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Row& row(int index) const { return vector_[static_cast<std::size_t>(index)]; }
  /// The values in the lanes of `lanes_written`, into a register.
  void write(int index, const Row& values, std::uint64_t lanes_written);

  // Memory instructions. They are done as late as a wait allows, or at once, as `early` says.
  Transfer& start(Counted kind, const Instruction& instruction, Transfer::Do perform);
  /// After its Transfer is filled in.
  void issued(Counted kind);
  void wait(const Instruction& instruction);
  void finish_all();

  const Chip& chip;
  const int lanes;
  LocalMemory& local;
  const DeviceMemory& memory;
  bool scc = false;
  std::size_t next = 0;  ///< index of the instruction
  State state = State::running;
  int number = 0;  ///< in the workgroup
  int barriers_signalled = 0, barriers_passed = 0;
  std::uint64_t image = 0;         ///< where the code object's address 0 lies
  std::mt19937* random = nullptr;  ///< null: every transfer is as late as it may be

 private:
  void complete_first(int queue);

  std::array<std::uint32_t, kScalars> scalar_{};
  std::vector<Row> vector_;
  struct Queue {
    std::deque<Transfer> transfers;
    std::deque<Counted> kinds;
  };
  std::array<Queue, kQueues> queues_;
};

}  // namespace tilesmith::amdgpu
