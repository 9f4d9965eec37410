#include "vocabulary/names/native.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/lasting.hpp"
#include "vocabulary/canonical.hpp"
#include "vocabulary/empty_signature.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {
namespace {

/// How a field shows in a name. Fields not listed show as their own name, and only when they differ from their default.
struct FieldToken {
  std::string_view field;
  std::string_view label;
  bool always = false;
};

constexpr FieldToken kTokens[] = {
    {"family", "", true},
    {"direction", "", true},
    {"data_type", "", true},
    {"mode", "", true},
    {"a", "a", true},
    {"b", "b", true},
    {"c", "c", true},
    {"head_dim_qk", "d", true},
    {"head_dim_v", "dv", true},
    {"soft_cap", "softcap"},
    {"pipeline", "", true},
    {"instruction", "", true},
    {"tile", "tile", true},
    {"wave_groups", "groups"},
    {"ping_pong", "pingpong"},
    {"q_stages", "qstages"},
    {"bias_stages", "biasstages"},
    {"pack_gqa", "packgqa"},
    {"block_per_cu", "blocks"},
    {"cluster_k", "clusterk"},
    {"late_wait", "latewait"},
    {"late_store", "latestore"},
    {"negative_scale", "negscale"},
    {"v_layout", "vlayout"},
    {"skip_min_seqlen_q", "skip"},
    {"dropout_variant", "dropvariant"},
    {"epilogue_ops", "with"},
    {"zero_points", "zeros"},
    {"split_k", "splitk"},
    {"split_k_atomic", "atomic"},
    {"stream_k", "streamk"},
    {"transpose_c", "transposed"},
    {"prefetch_weights", "prefetch"},
    {"packed_b", "packedb"},
    {"depthwise", "dw"},
    {"dynamic_scheduler", "dynamic"},
    {"mm_plus_mm", "mmplusmm"},
    {"k_batch", "kbatch"},
    {"stream_k_reduction", "streamkreduction"},
};

constexpr FieldToken token_of(std::string_view field) {
  for (const FieldToken& token : kTokens)
    if (token.field == field) return token;
  return {field, field};
}

void append_lower(std::string& out, std::string_view text) {
  for (const char c : text) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower(std::string_view text) {
  std::string out;
  append_lower(out, text);
  return out;
}

/// A list's value: in a name, tokens end at underscores, and "gelu", "tanh" is not "gelu_tanh".
std::string list_token(std::string_view value) {
  std::string out = lower(value);
  std::erase(out, '_');
  return out;
}

template <class T>
void append_token(std::string& out, std::string_view label, const T& value) {
  out += label;
  if constexpr (FlagField<T>) {
    if (!value) out += "_off";  // only for a flag whose default is on
  } else if constexpr (IntegerField<T>) {
    if (value < 0) out += "neg";
    append_integer(out, value < 0 ? -static_cast<long long>(value) : static_cast<long long>(value));
  } else if constexpr (EnumField<T>) {
    if (!label.empty()) out += '_';
    append_lower(out, name_of(value));
  } else if constexpr (ListField<T>) {
    for (const auto element : value) {
      out += '_';
      out += list_token(name_of(element));
    }
  } else {
    std::size_t count = value.size();
    while (count > 1 && value[count - 1] == 0) --count;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += 'x';
      append_integer(out, static_cast<long long>(value[i]));
    }
  }
}

/// How the fields of S show, in their order: looked up once, because lists hold names by the hundred thousand.
template <class S>
const std::vector<FieldToken>& tokens_of() {
  static const std::vector<FieldToken>& tokens = lasting([] {
    std::vector<FieldToken> out;
    const S object{};
    S::fields(object, [&](std::string_view field, const auto&) { out.push_back(token_of(field)); });
    return out;
  }());
  return tokens;
}

template <class S>
void append_tokens(std::string& name, const S& object) {
  auto token = tokens_of<S>().begin();
  visit_beside_defaults(object, [&](std::string_view, const auto& value, const auto& standard) {
    const FieldToken& shown = *token++;
    if (!shown.always && value == standard) return;
    name += '_';
    append_token(name, shown.label, value);
  });
}

/// Reads tokens off the front of a name.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool done() const { return rest_.empty(); }

  /// Takes "_" + text when it stands next and ends at a token's end.
  bool take(std::string_view text) {
    if (rest_.size() < text.size() + 1 || rest_[0] != '_' || rest_.substr(1, text.size()) != text) return false;
    const std::string_view after = rest_.substr(text.size() + 1);
    if (!after.empty() && after[0] != '_') return false;
    rest_ = after;
    return true;
  }

  /// Takes "_" + label + digits.
  template <class T>
  bool take_integer(std::string_view label, T& value) {
    std::string_view text = rest_;
    if (!strip(text, "_") || !strip(text, label)) return false;
    const bool negative = strip(text, "neg");
    long long number = 0;
    if (!strip_number(text, number) || (!text.empty() && text[0] != '_')) return false;
    if (negative) number = -number;
    if (number < static_cast<long long>(std::numeric_limits<T>::min()) ||
        number > static_cast<long long>(std::numeric_limits<T>::max()))
      return false;
    value = static_cast<T>(number);
    rest_ = text;
    return true;
  }

  /// Takes "_" + label + figures joined by "x".
  template <class Array>
  bool take_array(std::string_view label, Array& values) {
    std::string_view text = rest_;
    if (!strip(text, "_") || !strip(text, label)) return false;
    Array read{};
    for (std::size_t i = 0; i < read.size(); ++i) {
      long long number = 0;
      if (!strip_number(text, number)) return false;
      if (number > static_cast<long long>(std::numeric_limits<typename Array::value_type>::max())) return false;
      read[i] = static_cast<typename Array::value_type>(number);
      if (!strip(text, "x")) break;
    }
    if (!text.empty() && text[0] != '_') return false;
    values = read;
    rest_ = text;
    return true;
  }

  /// Takes "_" + label + the list's values as far as they go.
  template <class List>
  bool take_list(std::string_view label, List& list) {
    Reader attempt = *this;
    if (!attempt.take(label)) return false;
    List read{};
    for (bool more = true; more;) {
      more = false;
      for (const auto& entry : EnumTable<typename List::value_type>::kNames) {
        Reader next = attempt;
        if (!next.take(list_token(entry.name)) || !read.push_back(entry.value)) continue;
        attempt = next;
        more = true;
        break;
      }
    }
    if (read.empty()) return false;
    list = read;
    *this = attempt;
    return true;
  }

  /// Takes "_" + [label + "_"] + the longest value name that fits, and behind which what is left fits too.
  template <class E>
  bool take_enum(std::string_view label, E& value) {
    return take_enum(label, value, [](const Reader&) { return true; });
  }
  template <class E, class Rest>
  bool take_enum(std::string_view label, E& value, Rest fits) {
    const EnumName<E>* best = nullptr;
    for (const auto& entry : EnumTable<E>::kNames) {
      if (best != nullptr && entry.name.size() < best->name.size()) continue;
      if (Reader attempt = *this; attempt.take(enum_text(label, entry.name)) && fits(attempt)) best = &entry;
    }
    if (best == nullptr) return false;
    value = best->value;
    return take(enum_text(label, best->name));
  }

 private:
  static std::string enum_text(std::string_view label, std::string_view value) {
    return label.empty() ? lower(value) : fmt::format("{}_{}", label, lower(value));
  }
  static bool strip(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
  }
  static bool strip_number(std::string_view& text, long long& number) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || number < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  }

  std::string_view rest_;
};

template <class S>
Status read_tokens(Reader& reader, S& into) {
  Status status;
  S::fields(into, [&](std::string_view field, auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if (!status) return;
    const FieldToken token = token_of(field);
    bool taken = false;
    if constexpr (FlagField<T>) {
      if (reader.take(fmt::format("{}_off", token.label))) {
        value = false;
        taken = true;
      } else if (reader.take(token.label)) {
        value = true;
        taken = true;
      }
    } else if constexpr (IntegerField<T>) {
      taken = reader.take_integer(token.label, value);
    } else if constexpr (std::is_same_v<T, Pipeline>) {
      // An instruction follows: without one, "decode_wgmma" is decode by wgmma.
      taken = reader.take_enum(token.label, value, [](Reader next) {
        Instruction instruction{};
        return next.take_enum("", instruction);
      });
    } else if constexpr (EnumField<T>) {
      taken = reader.take_enum(token.label, value);
    } else if constexpr (ListField<T>) {
      taken = reader.take_list(token.label, value);
    } else {
      taken = reader.take_array(token.label, value);
    }
    if (!taken && token.always)
      status = fail(ErrorCode::parse, fmt::format("kernel name: no {} at \"{}\"", field, reader.rest().substr(0, 64)),
                    "tilesmith list --names prints valid names");
  });
  return status;
}

}  // namespace

std::string native_name(const KernelConfig& config) {
  std::string name(name_of(config.operation()));
  std::visit([&](const auto& signature) { append_tokens(name, signature); }, config.signature);
  append_tokens(name, config.algorithm);
  name += "_on_";
  name += config.arch.text();
  return name;
}

Result<KernelConfig> parse_native_name(std::string_view name) {
  constexpr std::size_t kMaxName = 1024;
  if (name.size() > kMaxName)
    return fail(ErrorCode::parse, fmt::format("kernel name of {} characters", name.size()),
                fmt::format("at most {}", kMaxName));
  const std::size_t arch_at = name.rfind("_on_");
  if (arch_at == std::string_view::npos)
    return fail(ErrorCode::parse, fmt::format("kernel name \"{}\" names no architecture", name.substr(0, 80)),
                "names end in _on_<arch>");
  KernelConfig config;
  TS_ASSIGN(config.arch, ArchName::parse(name.substr(arch_at + 4)));

  const std::string prefixed = "_" + std::string(name.substr(0, arch_at));
  Reader reader(prefixed);
  Operation operation{};
  if (!reader.take_enum("", operation))
    return fail(ErrorCode::parse, fmt::format("kernel name \"{}\" names no operation", name.substr(0, 80)),
                "attention_, gemm_ or conv_ first");
  config.signature = empty_signature(operation);
  TS_TRY(std::visit([&](auto& signature) { return read_tokens(reader, signature); }, config.signature));
  TS_TRY(read_tokens(reader, config.algorithm));
  if (!reader.done())
    return fail(ErrorCode::parse, fmt::format("kernel name: \"{}\" was not understood", reader.rest().substr(0, 80)),
                "tilesmith list --names prints valid names");
  return config;
}

}  // namespace tilesmith
