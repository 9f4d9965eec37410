// Writing and reading the pieces of Composable Kernel names. Lists of millions of names are written piece by piece into
// one buffer, so the writer copies whole words of fixed size and advances by the length, without a branch on it.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith::ck {

/// A token of at most 31 characters, ready to be copied as one block.
struct Token {
  char text[31] = {};
  std::uint8_t length = 0;

  constexpr Token() = default;
  constexpr Token(std::string_view prefix, std::string_view value) {
    for (const char c : prefix) text[length++] = c;
    for (const char c : value) text[length++] = c;
  }
};
static_assert(sizeof(Token) == 32);

/// prefix + name, for each value of an enum.
template <TabledEnum E>
consteval auto tokens(std::string_view prefix) {
  std::array<Token, EnumTable<E>::kNames.size()> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = Token(prefix, EnumTable<E>::kNames[i].name);
  return table;
}

class Writer {
 public:
  explicit Writer(char* at) : at_(at) {}
  [[nodiscard]] char* end() const { return at_; }

  void put(const Token& token) {
    std::memcpy(at_, &token, sizeof token);
    at_ += token.length;
  }
  void put(char c) { *at_++ = c; }
  void put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void number(unsigned value) {
    if (value < kSmall) {
      std::memcpy(at_, &digits()[value], 4);
      at_ += digits()[value].length;
    } else {
      at_ = std::to_chars(at_, at_ + 10, value).ptr;
    }
  }
  void signed_number(int value) {
    if (value < 0) put('-');
    number(static_cast<unsigned>(value < 0 ? -value : value));
  }
  template <std::size_t N>
  void numbers(const std::array<std::uint16_t, N>& values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) put('x');
      number(values[i]);
    }
  }

 private:
  static constexpr unsigned kSmall = 1024;
  struct Digits {
    char text[4] = {};
    std::uint32_t length = 0;
  };
  static const std::array<Digits, kSmall>& digits() {
    static constexpr auto kTable = [] {
      std::array<Digits, kSmall> table{};
      for (unsigned value = 0; value < kSmall; ++value) {
        char reversed[4] = {};
        unsigned count = 0, rest = value;
        do reversed[count++] = static_cast<char>('0' + rest % 10);
        while ((rest /= 10) != 0);
        for (unsigned i = 0; i < count; ++i) table[value].text[i] = reversed[count - 1 - i];
        table[value].length = count;
      }
      return table;
    }();
    return kTable;
  }

  char* at_;
};

/// Takes pieces off the front of a name. Each reader says whether the piece stood there and leaves the text alone when
/// it did not.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool done() const { return rest_.empty(); }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  /// The longest name that stands next and is followed by `after` or the end; takes both.
  template <TabledEnum E>
  bool take_enum(E& value, char after = '_') {
    const EnumName<E>* best = nullptr;
    for (const auto& entry : EnumTable<E>::kNames) {
      if (!rest_.starts_with(entry.name)) continue;
      if (rest_.size() > entry.name.size() && rest_[entry.name.size()] != after) continue;
      if (best == nullptr || entry.name.size() > best->name.size()) best = &entry;
    }
    if (best == nullptr) return false;
    value = best->value;
    rest_.remove_prefix(best->name.size());
    if (!rest_.empty()) rest_.remove_prefix(1);
    return true;
  }

  template <std::integral T>
  bool take_number(T& value) {
    T read{};
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), read);
    if (code != std::errc{}) return false;
    value = read;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }

  /// `count` figures with `between` between them.
  template <std::integral T, std::size_t N>
  bool take_numbers(std::array<T, N>& values, std::size_t count, std::string_view between = "x") {
    Reader attempt = *this;
    std::array<T, N> read{};
    for (std::size_t i = 0; i < count; ++i)
      if ((i > 0 && !attempt.take(between)) || !attempt.take_number(read[i])) return false;
    for (std::size_t i = 0; i < count; ++i) values[i] = read[i];
    *this = attempt;
    return true;
  }

  bool take_flag(bool& value) {
    if (take("True")) return value = true;
    if (!take("False")) return false;
    value = false;
    return true;
  }

  /// The error for a piece that is not there.
  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const;

 private:
  std::string_view rest_;
};

char* write_attention_name(const KernelConfig& config, char* out);
char* write_gemm_name(const KernelConfig& config, char* out);
char* write_conv_name(const KernelConfig& config, char* out);
[[nodiscard]] Result<KernelConfig> parse_attention_name(std::string_view name);
[[nodiscard]] Result<KernelConfig> parse_gemm_name(std::string_view name);
[[nodiscard]] Result<KernelConfig> parse_conv_name(std::string_view name);

inline constexpr std::string_view kAttentionPrefix = "fmha_";
inline constexpr std::string_view kGemmPrefix = "gemm_";
inline constexpr std::string_view kConvPrefix = "grouped_conv_";

}  // namespace tilesmith::ck
