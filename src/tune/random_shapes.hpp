// Problems drawn at random by family of shapes: what an oracle judges choices by, away from the shapes that tables were
// made from. A draw depends on the seed, the family, the type and its number alone, so that a larger sample has the
// smaller one's problems, on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "problem/operations.hpp"

namespace tilesmith {

/// A stream of random numbers that is the same with every standard library.
class ShapeRandom {
 public:
  explicit ShapeRandom(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t next();
  /// 0 to below 1.
  [[nodiscard]] double share();
  /// From low to high, both included, each octave as likely as another; a multiple of `step`.
  [[nodiscard]] std::int64_t size(std::int64_t low, std::int64_t high, std::int64_t step = 1);
  template <class Values>
  [[nodiscard]] const auto& one_of(const Values& values) {
    return values[static_cast<std::size_t>(next() % values.size())];
  }

 private:
  std::uint64_t state_;
};

/// A specialisation for each row has
///
///   static std::span<const std::string_view> families()
///   static std::vector<DataType> usual_types()
///   static Problem draw(std::string_view family, DataType type, ShapeRandom&)
template <class Op>
struct ShapeFamilies;

template <>
struct ShapeFamilies<Gemm> {
  [[nodiscard]] static std::span<const std::string_view> families();
  [[nodiscard]] static std::vector<DataType> usual_types() { return {DataType::bf16}; }
  [[nodiscard]] static GemmProblem draw(std::string_view family, DataType type, ShapeRandom& random);
};

template <>
struct ShapeFamilies<AttentionFwd> {
  [[nodiscard]] static std::span<const std::string_view> families();
  [[nodiscard]] static std::vector<DataType> usual_types() { return {DataType::bf16}; }
  [[nodiscard]] static AttentionProblem draw(std::string_view family, DataType type, ShapeRandom& random);
};

template <>
struct ShapeFamilies<AttentionBwd> {
  [[nodiscard]] static std::span<const std::string_view> families();
  [[nodiscard]] static std::vector<DataType> usual_types() { return {DataType::bf16}; }
  [[nodiscard]] static AttentionBackwardProblem draw(std::string_view family, DataType type, ShapeRandom& random);
};

template <>
struct ShapeFamilies<Conv> {
  [[nodiscard]] static std::span<const std::string_view> families();
  [[nodiscard]] static std::vector<DataType> usual_types() { return {DataType::bf16}; }
  [[nodiscard]] static ConvProblem draw(std::string_view family, DataType type, ShapeRandom& random);
};

struct SampleOptions {
  int count = 64;  ///< of problems; families, then types, take turns
  std::uint64_t seed = 1;
  std::vector<std::string> families{};  ///< empty: all
  std::vector<DataType> types{};        ///< empty: the usual ones
  double most_flops = 1e12;             ///< of a call
  double most_bytes = 4e9;              ///< that a call reads and writes
};

template <class Op>
struct DrawnProblem {
  std::string family;
  typename Op::Problem problem;
};

/// Each problem once. Fewer than asked for, where a family has none of so little work. Error: invalid_argument, a
/// family that is not known, with those that are.
template <class Op>
[[nodiscard]] Result<std::vector<DrawnProblem<Op>>> draw_problems(const SampleOptions& options);

}  // namespace tilesmith
