// Scalar loads: SMEM (CDNA 3 ISA 8 and 12.6, RDNA 3 and RDNA 4 ISA 9 and 16.6).
#include <cstring>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// Operands: registers, base, offset.
template <int kWords>
void load(Wave& wave, const Instruction& in) {
  const Operand& offset = in.at(2);
  u64 address = wave.scalar_pair(in.at(1).index) + static_cast<u64>(i64{in.modifiers.offset});
  if (offset.kind == Operand::Kind::constant)
    address +=
        static_cast<u64>(offset.literal ? i64{static_cast<i32>(offset.constant)} : static_cast<i64>(offset.constant));
  else if (offset.kind == Operand::Kind::scalar && offset.index != kNull)
    address += wave.scalar(offset.index);
  if (address % 4 != 0) fault("a scalar load from {:#x}, which is no multiple of 4", address);
  if (wave.memory.find(address, 4 * kWords, false) == nullptr)
    fault("a scalar load of {} bytes at {}", 4 * kWords, wave.memory.describe(address));
  Transfer& transfer = wave.start(Counted::scalar, in, [](Wave& w, Transfer& t) {
    u32 words[kWords];
    std::memcpy(words, reinterpret_cast<const void*>(t.places[0][0]), sizeof words);
    for (int i = 0; i < kWords; ++i) w.set_scalar(t.instruction->at(0).index + i, words[i]);
  });
  transfer.places[0][0] = address;
  for (int i = 0; i < kWords; ++i) wave.set_scalar(in.at(0).index + i, kPoison);
  wave.issued(Counted::scalar);
}

constexpr Operation kOperations[] = {
    {"s_load_dword", load<1>},   {"s_load_dwordx2", load<2>},   {"s_load_dwordx4", load<4>},
    {"s_load_dwordx8", load<8>}, {"s_load_dwordx16", load<16>}, {"s_load_b32", load<1>},
    {"s_load_b64", load<2>},     {"s_load_b96", load<3>},       {"s_load_b128", load<4>},
    {"s_load_b256", load<8>},    {"s_load_b512", load<16>},
};

}  // namespace

std::span<const Operation> scalar_memory_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
