// One dimension that an option and the shapes of some tensors tell; all that tell it must agree.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace tilesmith::cli {

class Dimension {
 public:
  explicit Dimension(std::string name) : name_(std::move(name)) {}

  Status tell(std::optional<std::int64_t> value, const std::string& by) {
    if (!value) return {};
    if (value_ && *value_ != *value)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is {} by {} and {} by {}", name_, *value_, by_, *value, by), "one value");
    value_ = value;
    by_ = by;
    return {};
  }
  [[nodiscard]] std::optional<std::int64_t> value() const { return value_; }

 private:
  std::string name_;
  std::optional<std::int64_t> value_;
  std::string by_;
};

}  // namespace tilesmith::cli
