// What the examples share: random tensors, an end with the library's own words when a call fails, and a reference of
// one row to compare results with.
#pragma once

#include <tilesmith/tilesmith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace example {

using Tensor = std::vector<float>;

inline Tensor random_tensor(std::int64_t elements, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Tensor values(static_cast<std::size_t>(elements));
  for (float& value : values) value = normal(engine);
  return values;
}

[[noreturn]] inline void end(const tilesmith::Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  std::exit(1);
}

inline void check(const tilesmith::Status& status) {
  if (!status) end(status.error());
}

template <class T>
T value_of(tilesmith::Result<T> result) {
  if (!result) end(result.error());
  return std::move(*result);
}

/// Ends the program unless two results agree within the limit.
inline void expect_near(const char* what, std::span<const float> a, std::span<const float> b, double limit) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::abs(double(a[i]) - b[i]);
    if (!(apart <= worst)) worst = apart;
  }
  std::printf("%s: at most %.2g apart\n", what, worst);
  if (!(worst <= limit)) std::exit(1);
}

/// One row of attention in double precision: softmax of `logits` (-inf hides a key) times the rows of v.
inline Tensor attend(std::span<const double> logits, std::span<const float> v, std::int64_t dim,
                     double sink = -INFINITY) {
  double largest = sink, sum = 0;
  for (const double logit : logits) largest = std::max(largest, logit);
  std::vector<double> o(static_cast<std::size_t>(dim));
  if (sink > -INFINITY) sum = std::exp(sink - largest);
  for (std::size_t j = 0; j < logits.size() && largest > -INFINITY; ++j) {
    const double weight = std::exp(logits[j] - largest);
    sum += weight;
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += weight * v[j * o.size() + d];
  }
  Tensor result(o.size());
  for (std::size_t d = 0; d < o.size(); ++d) result[d] = sum > 0 ? static_cast<float>(o[d] / sum) : 0;
  return result;
}

inline double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += double(a[i]) * b[i];
  return sum;
}

}  // namespace example
