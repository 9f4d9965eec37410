// What is asked first of a kernel of a GPU that somebody named, for every operation and vendor.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "base/error.hpp"
#include "instances/rule.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

/// That the kernel is for the device's chip and of the operation, and that no rule refuses it.
template <class Subject, class Spec>
[[nodiscard]] Status is_instance(const KernelConfig& config, const Spec& spec, Operation operation,
                                 std::span<const Rule<Subject>> rules) {
  if (config.arch != spec.arch)
    return fail(
        ErrorCode::unsupported,
        fmt::format("kernel {} is for {}, the device is {}", native_name(config), config.arch.text(), spec.arch.text()),
        "tilesmith arch lists what runs here");
  if (config.operation() != operation)
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} is no kernel of {}", native_name(config), name_of(operation)),
                fmt::format("a name that begins with {}", name_of(operation)));
  const Subject subject{config, spec};
  if (const auto* rule = first_refusal(rules, subject))
    return fail(
        ErrorCode::unsupported,
        fmt::format("kernel {} is refused: rule {}: {}", native_name(config), rule->name, rule->figures(subject)),
        std::string(rule->about));
  return {};
}

/// The error of a kernel that computes problems of another signature than the wanted one.
[[nodiscard]] inline auto other_signature(const KernelConfig& config, const Signature& wanted) {
  return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
              fmt::format("the problem's kernels are {}",
                          native_name({.arch = config.arch, .signature = wanted, .algorithm = config.algorithm})));
}

}  // namespace tilesmith
