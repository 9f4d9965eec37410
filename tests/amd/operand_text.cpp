#include "amd/operand_text.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>

#include "amd/dpp.hpp"
#include "amd/fault.hpp"
#include "amd/float_formats.hpp"

namespace tilesmith::amdgpu {
namespace {

std::int64_t integer(std::string_view text) {
  const bool negative = text.starts_with("-");
  if (negative) text.remove_prefix(1);
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) fault("'{}' is no integer", text);
  return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

std::vector<int> list(std::string_view text) {
  if (!text.starts_with("[") || !text.ends_with("]")) fault("'{}' is no list", text);
  std::vector<int> values;
  for (const std::string_view each : split_outside_brackets(text.substr(1, text.size() - 2), ','))
    values.push_back(static_cast<int>(integer(each)));
  return values;
}

std::uint8_t bits(std::string_view text) {
  std::uint8_t set = 0;
  const std::vector<int> values = list(text);
  for (std::size_t i = 0; i < values.size(); ++i) set = static_cast<std::uint8_t>(set | (values[i] & 1) << i);
  return set;
}

Select select_of(std::string_view text) {
  constexpr std::string_view kNames[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  for (int i = 0; i < 7; ++i)
    if (text == kNames[i]) return static_cast<Select>(i);
  fault("'{}' selects nothing", text);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::uint64_t real_bits(std::string_view text, RealType type) {
  const double value = std::strtod(std::string(text).c_str(), nullptr);
  switch (type) {
    case RealType::f16:
      return to_f16(value).bits;
    case RealType::bf16:
      return to_bf16(value).bits;
    case RealType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case RealType::f64:
    case RealType::b64:
      return std::bit_cast<std::uint64_t>(value);
  }
  return 0;
}

/// "12" or "[12:15]" behind the letters of a register file.
bool parse_range(std::string_view text, Operand& operand, int base) {
  if (text.empty()) return false;
  if (text.front() == '[') {
    const std::size_t colon = text.find(':');
    const auto first = integer(text.substr(1, colon - 1));
    const auto last = colon == std::string_view::npos ? integer(text.substr(1, text.size() - 2))
                                                      : integer(text.substr(colon + 1, text.size() - colon - 2));
    operand.index = static_cast<std::uint16_t>(base + first);
    operand.words = static_cast<std::uint8_t>(last - first + 1);
    return true;
  }
  if (!is_digit(text.front())) return false;
  operand.index = static_cast<std::uint16_t>(base + integer(text));
  return true;
}

bool parse_register(std::string_view text, Operand& operand) {
  struct Name {
    std::string_view text;
    std::uint16_t index;
    std::uint8_t words;
  };
  static constexpr Name kNames[] = {{"vcc", kVcc, 2},     {"vcc_lo", kVcc, 1},    {"vcc_hi", kVcc + 1, 1},
                                    {"exec", kExec, 2},   {"exec_lo", kExec, 1},  {"exec_hi", kExec + 1, 1},
                                    {"m0", kM0, 1},       {"null", kNull, 1},     {"scc", kScc, 1},
                                    {"src_scc", kScc, 1}, {"src_vccz", kVccZ, 1}, {"src_execz", kExecZ, 1},
                                    {"vccz", kVccZ, 1},   {"execz", kExecZ, 1}};
  operand.kind = Operand::Kind::scalar;
  for (const Name& name : kNames)
    if (text == name.text) {
      operand.index = name.index;
      operand.words = name.words;
      return true;
    }
  if (text.starts_with("ttmp")) return parse_range(text.substr(4), operand, kTtmp);
  if (text.starts_with("s")) return parse_range(text.substr(1), operand, 0);
  operand.kind = Operand::Kind::vector;
  if (text.ends_with(".l") || text.ends_with(".h")) {
    operand.names_half = true;
    operand.high_half = text.back() == 'h';
    text.remove_suffix(2);
  }
  if (text.starts_with("v")) return parse_range(text.substr(1), operand, 0);
  if (text.starts_with("a")) return parse_range(text.substr(1), operand, kAccumulation);
  return false;
}

/// The inside of name(...).
bool unwrap(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != '(' || !text.ends_with(")"))
    return false;
  text = text.substr(name.size() + 1, text.size() - name.size() - 2);
  return true;
}

}  // namespace

RealType real_type(std::string_view mnemonic) {
  while (!mnemonic.empty()) {
    const std::size_t at = mnemonic.rfind('_');
    const std::string_view word = mnemonic.substr(at + 1);
    if (word == "bf16") return RealType::bf16;
    if (word == "f16" || word == "b16" || word == "u16" || word == "i16") return RealType::f16;
    if (word == "f64") return RealType::f64;
    if (word == "b64" || word == "u64" || word == "i64") return RealType::b64;
    if (word == "f32" || word == "b32" || word == "u32" || word == "i32") return RealType::f32;
    mnemonic = mnemonic.substr(0, at == std::string_view::npos ? 0 : at);
  }
  return RealType::f32;
}

std::vector<std::string_view> split_outside_brackets(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(" ")) part.remove_prefix(1);
    while (part.ends_with(" ")) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '[' || text[i] == '(') - (text[i] == ']' || text[i] == ')');
    if (depth == 0 && text[i] == at) add(i);
  }
  add(text.size());
  return parts;
}

Operand parse_operand(std::string_view text, RealType real) {
  const std::string_view whole = text;
  Operand operand;
  if (text == "off") {
    operand.kind = Operand::Kind::off;
    return operand;
  }
  if (text.starts_with("-") && text.size() > 1 && !is_digit(text[1])) {
    operand.negate = true;
    text.remove_prefix(1);
  }
  operand.negate |= unwrap(text, "neg");
  operand.sign_extend = unwrap(text, "sext");
  operand.absolute = unwrap(text, "abs");
  if (text.starts_with("|") && text.ends_with("|")) {
    operand.absolute = true;
    text = text.substr(1, text.size() - 2);
  }
  if (text.empty()) fault("'{}' is no operand", whole);
  if (is_digit(text.front()) || text.front() == '-' || unwrap(text, "lit")) {
    operand.kind = Operand::Kind::constant;
    operand.literal = text.starts_with("0x");
    if (text.find('.') != std::string_view::npos) {
      operand.constant = real_bits(text, real);
    } else {
      operand.constant = static_cast<std::uint64_t>(integer(text));
      if (operand.literal && real == RealType::f64) operand.constant <<= 32;
    }
    return operand;
  }
  if (!parse_register(text, operand)) fault("'{}' is no operand", whole);
  return operand;
}

void parse_modifier(std::string_view text, Instruction& into) {
  Modifiers& m = into.modifiers;
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const auto number = [&] { return static_cast<int>(integer(value)); };
  if (name == "offset" || name == "offset0") {
    m.offset = number();
  } else if (name == "offset1") {
    m.offset1 = number();
  } else if (name == "op_sel") {
    m.op_sel = bits(value);
  } else if (name == "op_sel_hi") {
    m.op_sel_hi = bits(value);
  } else if (name == "neg_lo") {
    m.neg_lo = bits(value);
  } else if (name == "neg_hi") {
    m.neg_hi = bits(value);
  } else if (name == "clamp") {
    m.clamp = true;
  } else if (name == "mul") {
    m.output_scale = static_cast<float>(number());
  } else if (name == "div") {
    m.output_scale = 1.0f / static_cast<float>(number());
  } else if (name == "dst_sel") {
    m.sdwa = true;
    m.dst_select = select_of(value);
  } else if (name == "src0_sel" || name == "src1_sel") {
    m.sdwa = true;
    m.select[name[3] - '0'] = select_of(value);
  } else if (name == "dst_unused") {
    m.unused = value == "UNUSED_PAD"    ? Modifiers::Unused::pad
               : value == "UNUSED_SEXT" ? Modifiers::Unused::sext
                                        : Modifiers::Unused::preserve;
  } else if (name == "cbsz") {
    m.cbsz = number();
  } else if (name == "abid") {
    m.abid = number();
  } else if (name == "blgp") {
    m.blgp = number();
  } else if (name == "bitop3") {
    m.bitop3 = number();
  } else if (name == "index_key") {
    m.index_key = number();
  } else if (name == "wait_exp") {
    m.wait_exp = number();
  } else if (name == "offen") {
    m.offset_enable = true;
  } else if (name == "idxen") {
    m.index_enable = true;
  } else if (name == "lds") {
    m.to_lds = true;
  } else if (name == "glc" || name == "slc" || name == "dlc" || name == "sc0" || name == "sc1" || name == "nt" ||
             name == "th" || name == "scope") {
    // How caches treat an access: there are none here. A returned value of an atomic would need `glc`.
  } else if (name == "quad_perm" || name == "dpp8") {
    set_dpp_control(m, name, list(value));
  } else if (name.starts_with("row_") && name != "row_mask") {
    set_dpp_control(m, name, value.empty() ? std::vector<int>{} : std::vector<int>{number()});
  } else if (name == "wave_shl" || name == "wave_shr" || name == "wave_rol" || name == "wave_ror") {
    set_dpp_control(m, name, {});
  } else if (name == "row_mask" || name == "bank_mask" || name == "bound_ctrl" || name == "fi") {
    set_dpp_flag(m, name, number());
  } else {
    fault("the modifier '{}' is not known", text);
  }
}

}  // namespace tilesmith::amdgpu
