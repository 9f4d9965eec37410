#include <array>

#include "problem/conv/problem.hpp"
#include "tune/random_shapes.hpp"

namespace tilesmith {
namespace {

constexpr std::array<std::string_view, 5> kConvFamilies = {"dense", "pointwise", "grouped", "depthwise", "line"};
constexpr std::array<std::int64_t, 4> kFilters = {1, 3, 5, 7};
constexpr std::array<std::int64_t, 2> kStrides = {1, 2};
constexpr std::array<ConvDirection, 3> kDirections = {ConvDirection::forward, ConvDirection::backward_data,
                                                      ConvDirection::backward_weight};

}  // namespace

std::span<const std::string_view> ShapeFamilies<Conv>::families() {
  return kConvFamilies;
}

ConvProblem ShapeFamilies<Conv>::draw(std::string_view family, DataType type, ShapeRandom& random) {
  ConvProblem p;
  p.data_type = type;
  p.type_out = p.type_bias = usual_type_out(type);
  p.direction = random.one_of(kDirections);
  if (bits_of(type) == 8) p.direction = ConvDirection::forward;  // there are no others
  p.batch = random.size(1, 16);
  p.in_w = random.size(7, 112);
  p.in_h = family == "line" ? 1 : p.in_w;
  p.filter_w = family == "pointwise" ? 1 : random.one_of(kFilters);
  p.filter_h = family == "line" ? 1 : p.filter_w;
  p.stride_w = random.one_of(kStrides);
  p.stride_h = family == "line" ? 1 : p.stride_w;
  p.pad_w = p.pad_high_w = p.filter_w / 2;
  p.pad_h = p.pad_high_h = p.filter_h / 2;
  if (family == "depthwise") {
    p.groups = random.size(16, 768, 8);
  } else if (family == "grouped") {
    p.groups = random.size(2, 32);
    p.c = p.k = random.size(4, 64, 4);
  } else {
    p.c = random.size(3, 512);
    p.k = random.size(16, 512, 8);
  }
  return p;
}

}  // namespace tilesmith
