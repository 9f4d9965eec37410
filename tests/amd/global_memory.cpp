// Vector memory: GLOBAL, FLAT (of global memory alone) and raw buffers (CDNA 3 ISA 9, 10, 12.14 and 12.15; RDNA 3 and
// RDNA 4 ISA 10, 11 and 16.16).
#include <algorithm>

#include "amd/local_memory.hpp"
#include "amd/memory_access.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// The address of each lane, checked; `base`: operand of the address, behind it (or behind the data) the scalar part.
void place(Wave& wave, const Instruction& in, const Operand& address, const Operand* scalar, std::size_t bytes,
           bool write, Transfer& transfer) {
  const bool has_base = scalar != nullptr && scalar->kind == Operand::Kind::scalar && scalar->index != kNull;
  const u64 base = has_base ? wave.scalar_pair(scalar->index) : 0;
  for_lanes(transfer.lanes, [&](int lane) {
    const auto at = static_cast<std::size_t>(lane);
    u64 place = base + static_cast<u64>(i64{in.modifiers.offset});
    if (address.kind == Operand::Kind::vector) {
      place += wave.row(address.index)[at];
      if (address.words == 2) place += static_cast<u64>(wave.row(address.index + 1)[at]) << 32;
    }
    if (wave.memory.find(place, bytes, write) == nullptr)
      fault("lane {} {} {} bytes at {}", lane, write ? "writes" : "reads", bytes, wave.memory.describe(place));
    transfer.places[0][at] = place;
  });
}

template <Form kForm>
void perform_load(Wave& wave, Transfer& transfer) {
  const int index = transfer.instruction->at(0).index;
  for_lanes(transfer.lanes, [&](int lane) {
    const auto at = static_cast<std::size_t>(lane);
    u32 words[4] = {};
    std::memcpy(words, reinterpret_cast<const void*>(transfer.places[0][at]), bytes_of(kForm));
    for (int word = 0; word < words_of(kForm); ++word) {
      u32& to = wave.row(index + word)[at];
      to = loaded_word(kForm, words[word], to);
    }
  });
}
template <Form kForm>
void perform_store(Wave&, Transfer& transfer) {
  for_lanes(transfer.lanes, [&](int lane) {
    const auto at = static_cast<std::size_t>(lane);
    u32 words[4];
    for (int word = 0; word < words_of(kForm); ++word) words[word] = transfer.data[static_cast<std::size_t>(word)][at];
    std::memcpy(reinterpret_cast<void*>(transfer.places[0][at]), words, bytes_of(kForm));
  });
}

/// Operands: data, address, scalar base or `off` (FLAT: none).
template <Form kForm>
void load(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::load, in, perform_load<kForm>);
  place(wave, in, in.at(1), in.count > 2 ? &in.at(2) : nullptr, bytes_of(kForm), false, transfer);
  poison_destination<kForm>(wave, in.at(0).index, transfer.lanes);
  wave.issued(Counted::load);
}
/// Operands: address, data, scalar base or `off`.
template <Form kForm>
void store(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::store, in, perform_store<kForm>);
  place(wave, in, in.at(0), in.count > 2 ? &in.at(2) : nullptr, bytes_of(kForm), true, transfer);
  keep_data<kForm>(wave, in.at(1), transfer);
  wave.issued(Counted::store);
}

/// A word of memory becomes the larger of itself and the data, one lane after another. Operands: address, data, scalar
/// base or `off`.
void atomic_max(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::store, in, [](Wave&, Transfer& t) {
    for_lanes(t.lanes, [&](int lane) {
      const auto at = static_cast<std::size_t>(lane);
      u32& word = *reinterpret_cast<u32*>(t.places[0][at]);
      word = std::max(word, t.data[0][at]);
    });
  });
  place(wave, in, in.at(0), in.count > 2 ? &in.at(2) : nullptr, 4, true, transfer);
  keep_data<Form::one>(wave, in.at(1), transfer);
  wave.issued(Counted::store);
}

/// From global into local memory: lane l at M0 + offset + l values. Operands: address, scalar base or `off`.
template <Form kForm>
void load_to_local(Wave& wave, const Instruction& in) {
  constexpr std::size_t kBytes = bytes_of(kForm);
  Transfer& transfer = wave.start(Counted::load, in, [](Wave& w, Transfer& t) {
    for_lanes(t.lanes, [&](int lane) {
      const auto at = static_cast<std::size_t>(lane);
      w.local.write(w, *t.instruction, t.places[1][at], kBytes, reinterpret_cast<const void*>(t.places[0][at]));
    });
  });
  place(wave, in, in.at(0), &in.at(1), kBytes, false, transfer);
  const u64 first = (wave.scalar(kM0) & 0xffff) + static_cast<u64>(i64{in.modifiers.offset});
  for_lanes(transfer.lanes, [&](int lane) {
    const u64 to = first + static_cast<u64>(lane) * kBytes;
    wave.local.check(to, kBytes, lane);
    transfer.places[1][static_cast<std::size_t>(lane)] = to;
  });
  wave.issued(Counted::load);
}

/// The lanes of a raw buffer access that lie within the buffer, at their addresses. Operands: data, offset of the lane,
/// the four words that describe the buffer, an offset for all.
u64 place_in_buffer(Wave& wave, const Instruction& in, std::size_t bytes, bool write, Transfer& transfer) {
  const int resource = in.at(2).index;
  const u32 high = wave.scalar(resource + 1), records = wave.scalar(resource + 2);
  if (in.modifiers.index_enable || high >> 16 != 0) fault("buffers with a stride or a swizzle are not emulated");
  if (in.modifiers.to_lds) fault("buffer loads into local memory are not emulated");
  const u64 base = wave.scalar(resource) | static_cast<u64>(high & 0xffff) << 32;
  const Operand& all = in.at(3);
  const u32 scalar = all.kind == Operand::Kind::constant ? static_cast<u32>(all.constant)
                     : all.index == kNull                ? 0
                                                         : wave.scalar(all.index);
  u64 within = 0;
  for_lanes(wave.exec(), [&](int lane) {
    const auto at = static_cast<std::size_t>(lane);
    const u64 offset =
        static_cast<u32>(in.modifiers.offset) + u64{in.modifiers.offset_enable ? wave.row(in.at(1).index)[at] : 0};
    if (offset + bytes > records) return;
    const u64 place = base + offset + scalar;
    if (wave.memory.find(place, bytes, write) == nullptr)
      fault("lane {} {} {} bytes at {}", lane, write ? "writes" : "reads", bytes, wave.memory.describe(place));
    within |= u64{1} << lane;
    transfer.places[0][at] = place;
  });
  return within;
}
/// What lies outside of the buffer reads as 0.
template <Form kForm>
void buffer_load(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::load, in, [](Wave& w, Transfer& t) {
    const u64 outside = t.places[1][0] & ~t.lanes;
    for_lanes(outside, [&](int lane) {
      for (int word = 0; word < words_of(kForm); ++word) {
        u32& to = w.row(t.instruction->at(0).index + word)[static_cast<std::size_t>(lane)];
        to = loaded_word(kForm, 0, to);
      }
    });
    perform_load<kForm>(w, t);
  });
  poison_destination<kForm>(wave, in.at(0).index, transfer.lanes);
  transfer.places[1][0] = transfer.lanes;
  transfer.lanes = place_in_buffer(wave, in, bytes_of(kForm), false, transfer);
  wave.issued(Counted::load);
}
template <Form kForm>
void buffer_store(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::store, in, perform_store<kForm>);
  transfer.lanes = place_in_buffer(wave, in, bytes_of(kForm), true, transfer);
  keep_data<kForm>(wave, in.at(0), transfer);
  wave.issued(Counted::store);
}

constexpr Operation kOperations[] = {
    {"global_load_ubyte", load<Form::byte>},
    {"global_load_sbyte", load<Form::signed_byte>},
    {"global_load_ushort", load<Form::half>},
    {"global_load_sshort", load<Form::signed_half>},
    {"global_load_short_d16", load<Form::low_half>},
    {"global_load_short_d16_hi", load<Form::high_half>},
    {"global_load_ubyte_d16", load<Form::low_byte>},
    {"global_load_ubyte_d16_hi", load<Form::high_byte>},
    {"global_load_sbyte_d16", load<Form::low_signed_byte>},
    {"global_load_sbyte_d16_hi", load<Form::high_signed_byte>},
    {"global_load_dword", load<Form::one>},
    {"global_load_dwordx2", load<Form::two>},
    {"global_load_dwordx3", load<Form::three>},
    {"global_load_dwordx4", load<Form::four>},
    {"global_load_u8", load<Form::byte>},
    {"global_load_i8", load<Form::signed_byte>},
    {"global_load_u16", load<Form::half>},
    {"global_load_i16", load<Form::signed_half>},
    {"global_load_d16_b16", load<Form::low_half>},
    {"global_load_d16_hi_b16", load<Form::high_half>},
    {"global_load_d16_u8", load<Form::low_byte>},
    {"global_load_d16_hi_u8", load<Form::high_byte>},
    {"global_load_d16_i8", load<Form::low_signed_byte>},
    {"global_load_d16_hi_i8", load<Form::high_signed_byte>},
    {"global_load_b32", load<Form::one>},
    {"global_load_b64", load<Form::two>},
    {"global_load_b96", load<Form::three>},
    {"global_load_b128", load<Form::four>},
    {"flat_load_ubyte", load<Form::byte>},
    {"flat_load_ushort", load<Form::half>},
    {"flat_load_dword", load<Form::one>},
    {"flat_load_dwordx2", load<Form::two>},
    {"flat_load_dwordx4", load<Form::four>},
    {"flat_load_b32", load<Form::one>},
    {"flat_load_b64", load<Form::two>},
    {"flat_load_b128", load<Form::four>},
    {"global_store_byte", store<Form::byte>},
    {"global_store_byte_d16_hi", store<Form::high_byte>},
    {"global_store_short", store<Form::half>},
    {"global_store_short_d16_hi", store<Form::high_half>},
    {"global_store_dword", store<Form::one>},
    {"global_store_dwordx2", store<Form::two>},
    {"global_store_dwordx3", store<Form::three>},
    {"global_store_dwordx4", store<Form::four>},
    {"global_store_b8", store<Form::byte>},
    {"global_store_d16_hi_b8", store<Form::high_byte>},
    {"global_store_b16", store<Form::half>},
    {"global_store_d16_hi_b16", store<Form::high_half>},
    {"global_store_b32", store<Form::one>},
    {"global_store_b64", store<Form::two>},
    {"global_store_b96", store<Form::three>},
    {"global_store_b128", store<Form::four>},
    {"global_atomic_umax", atomic_max},
    {"global_atomic_max_u32", atomic_max},
    {"global_load_lds_dword", load_to_local<Form::one>},
    {"global_load_lds_dwordx3", load_to_local<Form::three>},
    {"global_load_lds_dwordx4", load_to_local<Form::four>},
    {"buffer_load_ubyte", buffer_load<Form::byte>},
    {"buffer_load_ushort", buffer_load<Form::half>},
    {"buffer_load_dword", buffer_load<Form::one>},
    {"buffer_load_dwordx2", buffer_load<Form::two>},
    {"buffer_load_dwordx3", buffer_load<Form::three>},
    {"buffer_load_dwordx4", buffer_load<Form::four>},
    {"buffer_load_b32", buffer_load<Form::one>},
    {"buffer_load_b64", buffer_load<Form::two>},
    {"buffer_load_b128", buffer_load<Form::four>},
    {"buffer_store_byte", buffer_store<Form::byte>},
    {"buffer_store_short", buffer_store<Form::half>},
    {"buffer_store_dword", buffer_store<Form::one>},
    {"buffer_store_dwordx2", buffer_store<Form::two>},
    {"buffer_store_dwordx4", buffer_store<Form::four>},
    {"buffer_store_b32", buffer_store<Form::one>},
    {"buffer_store_b64", buffer_store<Form::two>},
    {"buffer_store_b128", buffer_store<Form::four>},
};

}  // namespace

std::span<const Operation> global_memory_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
