// Packed operations, two of 16 or of 32 bits in a lane, and dot products: VOP3P. op_sel and op_sel_hi choose which part
// of each source the lower and the upper result reads; neg_lo and neg_hi negate it (CDNA 3 ISA 6.6 and 12.9).
#include <cmath>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

bool bit(std::uint8_t bits, int position) {
  return (bits >> (position - 1) & 1) != 0;
}

/// One of the two values of a source of packed 16 bits.
template <class T>
class PackedHalf {
 public:
  PackedHalf(const Wave& wave, const Instruction& in, int position, bool upper) : words_(wave, in, position, 0) {
    const Modifiers& m = in.modifiers;
    shift_ = bit(upper ? m.op_sel_hi : m.op_sel, position) ? 16 : 0;
    flip_ = bit(upper ? m.neg_hi : m.neg_lo, position) ? 0x8000 : 0;
  }
  T operator[](int lane) const { return std::bit_cast<T>(static_cast<u16>(words_[lane] >> shift_ ^ flip_)); }

 private:
  Words words_;
  int shift_;
  u32 flip_;
};

/// One of the two values of a source of packed 32 bits: a register of a pair. A constant has its lower word alone.
template <class T>
class PackedWord {
 public:
  PackedWord(const Wave& wave, const Instruction& in, int position, bool upper)
      : words_(wave, in, position, word_of(in, position, upper)) {
    flip_ = bit(upper ? in.modifiers.neg_hi : in.modifiers.neg_lo, position) ? 0x80000000u : 0;
  }
  T operator[](int lane) const { return std::bit_cast<T>(words_[lane] ^ flip_); }

 private:
  static int word_of(const Instruction& in, int position, bool upper) {
    const int word = bit(upper ? in.modifiers.op_sel_hi : in.modifiers.op_sel, position) ? 1 : 0;
    const Operand& operand = in.at(position);
    if (word == 1 && operand.kind == Operand::Kind::constant && operand.constant != 0)
      fault("the upper word of a constant is not known");
    return word;
  }
  Words words_;
  u32 flip_;
};

template <auto kFunction, template <class> class Part, class Write>
void packed(Wave& wave, const Instruction& in, const Write& write) {
  using Signature = SignatureOf<decltype(kFunction)>;
  using T = typename Signature::Result;
  std::array<std::array<T, kLanes>, 2> results;
  for (const bool upper : {false, true}) {
    auto& half = results[upper];
    const Part<T> a(wave, in, 1, upper), b(wave, in, 2, upper);
    if constexpr (Signature::kCount == 2) {
      for (int lane = 0; lane < kLanes; ++lane) half[static_cast<std::size_t>(lane)] = kFunction(a[lane], b[lane]);
    } else {
      const Part<T> c(wave, in, 3, upper);
      for (int lane = 0; lane < kLanes; ++lane)
        half[static_cast<std::size_t>(lane)] = kFunction(a[lane], b[lane], c[lane]);
    }
  }
  write(results);
}

template <auto kFunction>
void packed_16(Wave& wave, const Instruction& in) {
  packed<kFunction, PackedHalf>(wave, in, [&](const auto& results) {
    Row words;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto word = [&](int part) {
        auto value = results[static_cast<std::size_t>(part)][lane];
        if (in.modifiers.clamp) {
          if constexpr (std::is_same_v<decltype(value), F16>)
            value = to_f16(modified(value_of(value), in.modifiers));
          else
            fault("clamp of packed integers is not emulated");
        }
        return result_bits(value);
      };
      words[lane] = word(0) | word(1) << 16;
    }
    wave.write(in.at(0).index, words, written_lanes(wave, in));
  });
}

template <class F>
constexpr Handler packed_16(F) {
  return packed_16<F{}>;
}

template <auto kFunction>
void packed_32(Wave& wave, const Instruction& in) {
  packed<kFunction, PackedWord>(wave, in, [&](const auto& results) {
    for (const int part : {0, 1}) {
      Row words;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        auto value = results[static_cast<std::size_t>(part)][lane];
        if constexpr (std::is_same_v<decltype(value), float>) value = modified(value, in.modifiers);
        words[lane] = result_bits(value);
      }
      wave.write(in.at(0).index + part, words, written_lanes(wave, in));
    }
  });
}

template <class F>
constexpr Handler packed_32(F) {
  return packed_32<F{}>;
}

/// V_PK_MOV_B32: the first result from the first source, the second from the second; op_sel chooses the word of each.
void move_two(Wave& wave, const Instruction& in) {
  Row results[2];
  for (const int part : {0, 1}) {
    const Words words(wave, in, part + 1, bit(in.modifiers.op_sel, part + 1) ? 1 : 0);
    for (int lane = 0; lane < kLanes; ++lane) results[part][static_cast<std::size_t>(lane)] = words[lane];
  }
  for (const int part : {0, 1}) wave.write(in.at(0).index + part, results[part], wave.exec());
}

double least(double a, double b) {
  return std::fmin(a, b);
}
double most(double a, double b) {
  return std::fmax(a, b);
}

/// a . b + c of two 16-bit floats a lane, in float32.
template <class T>
void dot_2(Wave& wave, const Instruction& in, int addend) {
  const PackedHalf<T> a0(wave, in, 1, false), b0(wave, in, 2, false), a1(wave, in, 1, true), b1(wave, in, 2, true);
  const Source<float> c(wave, in, addend);
  std::array<float, kLanes> results;
  for (int lane = 0; lane < kLanes; ++lane)
    results[static_cast<std::size_t>(lane)] = static_cast<float>(
        double{value_of(a0[lane])} * value_of(b0[lane]) + double{value_of(a1[lane])} * value_of(b1[lane]) + c[lane]);
  write_result<float>(wave, in, 0, results, 3);
}

/// Four products of 8-bit integers and c; `kSigned` by operand (neg_lo says so on RDNA).
void dot_4(Wave& wave, const Instruction& in, bool signed_a, bool signed_b) {
  const Words a(wave, in, 1, 0), b(wave, in, 2, 0), c(wave, in, 3, 0);
  Row results;
  const auto element = [](u32 word, int i, bool is_signed) {
    const u32 byte = word >> (8 * i) & 0xff;
    return is_signed ? i32{static_cast<std::int8_t>(byte)} : static_cast<i32>(byte);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 total = c[lane];
    for (int i = 0; i < 4; ++i)
      total += static_cast<u32>(element(a[lane], i, signed_a) * element(b[lane], i, signed_b));
    results[static_cast<std::size_t>(lane)] = total;
  }
  if (in.modifiers.clamp) fault("clamp of integer results is not emulated");
  wave.write(in.at(0).index, results, wave.exec());
}

constexpr Operation kOperations[] = {
    {"v_pk_add_f32", packed_32([](float a, float b) { return a + b; })},
    {"v_pk_mul_f32", packed_32([](float a, float b) { return a * b; })},
    {"v_pk_fma_f32", packed_32([](float a, float b, float c) { return std::fma(a, b, c); })},
    {"v_pk_mov_b32", move_two},
    {"v_pk_add_f16", packed_16<kHalves<sum>>},
    {"v_pk_mul_f16", packed_16<kHalves<product>>},
    {"v_pk_min_f16", packed_16<kHalves<least>>},
    {"v_pk_max_f16", packed_16<kHalves<most>>},
    {"v_pk_min_num_f16", packed_16<kHalves<least>>},
    {"v_pk_max_num_f16", packed_16<kHalves<most>>},
    {"v_pk_fma_f16", packed_16([](F16 a, F16 b, F16 c) {
       return to_f16(static_cast<double>(value_of(a)) * value_of(b) + value_of(c));
     })},
    {"v_pk_add_u16", packed_16([](u16 a, u16 b) { return static_cast<u16>(a + b); })},
    {"v_pk_sub_u16", packed_16([](u16 a, u16 b) { return static_cast<u16>(a - b); })},
    {"v_pk_add_i16", packed_16([](u16 a, u16 b) { return static_cast<u16>(a + b); })},
    {"v_pk_sub_i16", packed_16([](u16 a, u16 b) { return static_cast<u16>(a - b); })},
    {"v_pk_mul_lo_u16", packed_16([](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); })},
    {"v_pk_mad_u16", packed_16([](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); })},
    {"v_pk_lshlrev_b16", packed_16([](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); })},
    {"v_pk_lshrrev_b16", packed_16([](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); })},
    {"v_pk_ashrrev_i16", packed_16([](i16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); })},
    {"v_pk_min_i16", packed_16([](i16 a, i16 b) { return a < b ? a : b; })},
    {"v_pk_max_i16", packed_16([](i16 a, i16 b) { return a > b ? a : b; })},
    {"v_pk_min_u16", packed_16([](u16 a, u16 b) { return a < b ? a : b; })},
    {"v_pk_max_u16", packed_16([](u16 a, u16 b) { return a > b ? a : b; })},
    {"v_dot2_f32_f16", [](Wave& w, const Instruction& in) { dot_2<F16>(w, in, 3); }, Operation::scalar_words},
    {"v_dot2_f32_bf16", [](Wave& w, const Instruction& in) { dot_2<Bf16>(w, in, 3); }, Operation::scalar_words},
    {"v_dot2c_f32_f16", [](Wave& w, const Instruction& in) { dot_2<F16>(w, in, 0); }, Operation::scalar_words},
    {"v_dot4_i32_i8", [](Wave& w, const Instruction& in) { dot_4(w, in, true, true); }},
    {"v_dot4_u32_u8", [](Wave& w, const Instruction& in) { dot_4(w, in, false, false); }},
    {"v_dot4_i32_iu8",
     [](Wave& w, const Instruction& in) { dot_4(w, in, bit(in.modifiers.neg_lo, 1), bit(in.modifiers.neg_lo, 2)); }},
};

}  // namespace

std::span<const Operation> packed_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
