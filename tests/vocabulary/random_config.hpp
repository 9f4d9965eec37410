// Random kernel configs: every field takes any value its type allows.
#pragma once

#include <cstdlib>
#include <limits>
#include <random>

#include "vocabulary/config.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith::testing {

template <class T>
void randomize(std::mt19937_64& random, T& value) {
  if constexpr (FlagField<T>) {
    value = (random() & 1) != 0;
  } else if constexpr (IntegerField<T>) {
    value = static_cast<T>(random());
    if (value == std::numeric_limits<T>::min()) value = 0;
  } else if constexpr (EnumField<T>) {
    value = static_cast<T>(random() % enum_size<T>());
  } else if constexpr (ListField<T>) {
    value = {};
    for (std::uint64_t left = random() % (T::kMax + 1); left > 0; --left) {
      using Element = typename T::value_type;
      value.push_back(static_cast<Element>(1 + random() % (enum_size<Element>() - 1)));
    }
  } else {
    for (auto& figure : value)
      figure = static_cast<std::remove_cvref_t<decltype(figure)>>(random() % 4 == 0 ? 0 : random());
  }
}

inline KernelConfig random_config(std::mt19937_64& random) {
  const char* const archs[] = {"x86_64_v3", "x86_64_v4_bf16", "gfx950", "sm_90a", "a_on_b"};
  KernelConfig config;
  config.arch = *ArchName::parse(archs[random() % 5]);
  switch (random() % 3) {
    case 0:
      config.signature.emplace<AttentionSignature>();
      break;
    case 1:
      config.signature.emplace<GemmSignature>();
      break;
    default:
      config.signature.emplace<ConvSignature>();
      break;
  }
  // Sparse changes exercise the names' defaults, dense ones everything else.
  const std::uint64_t density = 1 + random() % 8;
  const auto vary = [&](std::string_view, auto& value) {
    if (random() % density == 0) randomize(random, value);
  };
  std::visit([&](auto& signature) { signature.fields(signature, vary); }, config.signature);
  Algorithm::fields(config.algorithm, vary);
  return config;
}

}  // namespace tilesmith::testing
