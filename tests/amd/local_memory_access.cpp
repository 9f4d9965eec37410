// Instructions of local memory: DS (CDNA 3 ISA 11 and 12.13, RDNA 3 and RDNA 4 ISA 12 and 16.15).
#include "amd/local_memory.hpp"
#include "amd/memory_access.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// Offsets in local memory of one or two places; kTwo: two of them, in units of kStride values.
template <Form kForm, bool kTwo, int kStride>
void place(Wave& wave, const Instruction& in, const Operand& address, Transfer& transfer) {
  transfer.parts = kTwo ? 2 : 1;
  constexpr int kUnit = kTwo ? kStride * static_cast<int>(bytes_of(kForm)) : 1;
  const Row& from = wave.row(address.index);
  for (int part = 0; part < transfer.parts; ++part) {
    const u32 offset = static_cast<u32>(kUnit * (part == 0 ? in.modifiers.offset : in.modifiers.offset1));
    for_lanes(transfer.lanes, [&](int lane) {
      const u64 at = from[static_cast<std::size_t>(lane)] + offset;
      wave.local.check(at, bytes_of(kForm), lane);
      transfer.places[static_cast<std::size_t>(part)][static_cast<std::size_t>(lane)] = at;
    });
  }
}

template <Form kForm, bool kTwo = false, int kStride = 1>
void load(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::local, in, [](Wave& w, Transfer& t) {
    const int index = t.instruction->at(0).index;
    for (int part = 0; part < t.parts; ++part)
      for_lanes(t.lanes, [&](int lane) {
        u32 words[4] = {};
        w.local.read(w, *t.instruction, t.places[static_cast<std::size_t>(part)][static_cast<std::size_t>(lane)],
                     bytes_of(kForm), words);
        for (int word = 0; word < words_of(kForm); ++word) {
          u32& to = w.row(index + part * words_of(kForm) + word)[static_cast<std::size_t>(lane)];
          to = loaded_word(kForm, words[word], to);
        }
      });
  });
  place<kForm, kTwo, kStride>(wave, in, in.at(1), transfer);
  for (int part = 0; part < transfer.parts; ++part)
    poison_destination<kForm>(wave, in.at(0).index + part * words_of(kForm), transfer.lanes);
  wave.issued(Counted::local);
}

template <Form kForm, bool kTwo = false, int kStride = 1>
void store(Wave& wave, const Instruction& in) {
  Transfer& transfer = wave.start(Counted::local, in, [](Wave& w, Transfer& t) {
    for (int part = 0; part < t.parts; ++part)
      for_lanes(t.lanes, [&](int lane) {
        u32 words[4];
        for (int word = 0; word < words_of(kForm); ++word)
          words[word] = t.data[static_cast<std::size_t>(part * words_of(kForm) + word)][static_cast<std::size_t>(lane)];
        w.local.write(w, *t.instruction, t.places[static_cast<std::size_t>(part)][static_cast<std::size_t>(lane)],
                      bytes_of(kForm), words);
      });
  });
  place<kForm, kTwo, kStride>(wave, in, in.at(0), transfer);
  for (int part = 0; part < transfer.parts; ++part) keep_data<kForm>(wave, in.at(1 + part), transfer);
  wave.issued(Counted::local);
}

/// A result that is known at once and comes as those of local memory do.
void deliver(Wave& wave, const Instruction& in, const Row& results) {
  Transfer& transfer = wave.start(
      Counted::local, in, [](Wave& w, Transfer& t) { w.write(t.instruction->at(0).index, t.data[0], t.lanes); });
  transfer.data.push_back(results);
  poison_destination<Form::one>(wave, in.at(0).index, transfer.lanes);
  wave.issued(Counted::local);
}

/// Each lane reads the lane that its address, in bytes, names; an inactive lane gives 0.
void permute_backward(Wave& wave, const Instruction& in) {
  const Row& address = wave.row(in.at(1).index);
  const Row& data = wave.row(in.at(2).index);
  Row results{};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const u32 from = (address[lane] + static_cast<u32>(in.modifiers.offset)) / 4 % static_cast<u32>(wave.lanes);
    if ((wave.exec() >> from & 1) != 0) results[lane] = data[from];
  }
  deliver(wave, in, results);
}
/// Each lane gives its value to the lane that its address names; the highest lane of several wins.
void permute_forward(Wave& wave, const Instruction& in) {
  const Row& address = wave.row(in.at(1).index);
  const Row& data = wave.row(in.at(2).index);
  Row results{};
  for_lanes(wave.exec(), [&](int lane) {
    const auto at = static_cast<std::size_t>(lane);
    results[(address[at] + static_cast<u32>(in.modifiers.offset)) / 4 % static_cast<u32>(wave.lanes)] = data[at];
  });
  deliver(wave, in, results);
}

constexpr Operation kOperations[] = {
    {"ds_read_u8", load<Form::byte>},
    {"ds_read_i8", load<Form::signed_byte>},
    {"ds_read_u16", load<Form::half>},
    {"ds_read_i16", load<Form::signed_half>},
    {"ds_read_u16_d16", load<Form::low_half>},
    {"ds_read_u16_d16_hi", load<Form::high_half>},
    {"ds_read_u8_d16", load<Form::low_byte>},
    {"ds_read_u8_d16_hi", load<Form::high_byte>},
    {"ds_read_b32", load<Form::one>},
    {"ds_read_b64", load<Form::two>},
    {"ds_read_b96", load<Form::three>},
    {"ds_read_b128", load<Form::four>},
    {"ds_read2_b32", load<Form::one, true>},
    {"ds_read2_b64", load<Form::two, true>},
    {"ds_read2st64_b32", load<Form::one, true, 64>},
    {"ds_read2st64_b64", load<Form::two, true, 64>},
    {"ds_load_u8", load<Form::byte>},
    {"ds_load_i8", load<Form::signed_byte>},
    {"ds_load_u16", load<Form::half>},
    {"ds_load_i16", load<Form::signed_half>},
    {"ds_load_u16_d16", load<Form::low_half>},
    {"ds_load_u16_d16_hi", load<Form::high_half>},
    {"ds_load_u8_d16", load<Form::low_byte>},
    {"ds_load_u8_d16_hi", load<Form::high_byte>},
    {"ds_load_b32", load<Form::one>},
    {"ds_load_b64", load<Form::two>},
    {"ds_load_b96", load<Form::three>},
    {"ds_load_b128", load<Form::four>},
    {"ds_load_2addr_b32", load<Form::one, true>},
    {"ds_load_2addr_b64", load<Form::two, true>},
    {"ds_load_2addr_stride64_b32", load<Form::one, true, 64>},
    {"ds_load_2addr_stride64_b64", load<Form::two, true, 64>},
    {"ds_write_b8", store<Form::byte>},
    {"ds_write_b16", store<Form::half>},
    {"ds_write_b8_d16_hi", store<Form::high_byte>},
    {"ds_write_b16_d16_hi", store<Form::high_half>},
    {"ds_write_b32", store<Form::one>},
    {"ds_write_b64", store<Form::two>},
    {"ds_write_b96", store<Form::three>},
    {"ds_write_b128", store<Form::four>},
    {"ds_write2_b32", store<Form::one, true>},
    {"ds_write2_b64", store<Form::two, true>},
    {"ds_write2st64_b32", store<Form::one, true, 64>},
    {"ds_write2st64_b64", store<Form::two, true, 64>},
    {"ds_store_b8", store<Form::byte>},
    {"ds_store_b16", store<Form::half>},
    {"ds_store_b8_d16_hi", store<Form::high_byte>},
    {"ds_store_b16_d16_hi", store<Form::high_half>},
    {"ds_store_b32", store<Form::one>},
    {"ds_store_b64", store<Form::two>},
    {"ds_store_b96", store<Form::three>},
    {"ds_store_b128", store<Form::four>},
    {"ds_store_2addr_b32", store<Form::one, true>},
    {"ds_store_2addr_b64", store<Form::two, true>},
    {"ds_store_2addr_stride64_b32", store<Form::one, true, 64>},
    {"ds_store_2addr_stride64_b64", store<Form::two, true, 64>},
    {"ds_bpermute_b32", permute_backward},
    {"ds_permute_b32", permute_forward},
};

}  // namespace

std::span<const Operation> local_memory_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
