// A list of names as the parity tables describe it: how many, and the SHA-256 of the list as it is and sorted bytewise,
// every name followed by a newline. Sorting is the slow part, so a list that was sorted before (same digest in order)
// is not sorted again.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith::testing {

class NameList {
 public:
  bool add(const KernelConfig& config) {
    const std::size_t at = text_.size();
    if (text_.capacity() - at < kMaxCkName + 1) text_.reserve(std::max<std::size_t>(2 * text_.capacity(), 1 << 20));
    text_.resize(at + kMaxCkName + 1);
    char* end = write_ck_name(config, text_.data() + at);
    *end++ = '\n';
    text_.resize(static_cast<std::size_t>(end - text_.data()));
    ++count_;
    return true;
  }

  /// Keeps the memory: lists are hundreds of megabytes, and the next one is as long.
  void clear() {
    text_.clear();
    count_ = 0;
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string ordered_digest() const { return to_hex(sha256(text_)); }

  [[nodiscard]] std::vector<std::string_view> lines() const {
    std::vector<std::string_view> out;
    out.reserve(count_);
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = text_.find('\n', at) + 1;
      out.push_back(std::string_view(text_).substr(at, end - at));
      at = end;
    }
    return out;
  }

  struct Sorted {
    std::string digest;
    bool unique = true;
  };
  [[nodiscard]] const Sorted& sorted() const {
    static std::map<std::string, Sorted> known;
    const auto [entry, fresh] = known.try_emplace(ordered_digest());
    if (!fresh) return entry->second;
    std::vector<std::string_view> names = lines();
    std::ranges::sort(names);
    static std::string joined;
    joined.clear();
    joined.reserve(text_.size());
    for (const std::string_view name : names) joined += name;
    entry->second = {to_hex(sha256(joined)), std::ranges::adjacent_find(names) == names.end()};
    return entry->second;
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace tilesmith::testing
