#include <array>

#include "problem/conv/problem.hpp"
#include "tune/random_shapes.hpp"

namespace tilesmith {
namespace {

// A family's draws depend on its place, so a new one comes last.
constexpr std::array<std::string_view, 6> kConvFamilies = {"dense",     "pointwise", "grouped",
                                                           "depthwise", "line",      "first_layer"};
constexpr std::array<std::int64_t, 4> kFilters = {1, 3, 5, 7};
// Of a network's first layer: grey, colour, and colour with depth; patches of 4 among the strides.
constexpr std::array<std::int64_t, 4> kFirstChannels = {1, 2, 3, 4}, kFirstFilters = {3, 5, 7, 11};
constexpr std::array<std::int64_t, 3> kFirstStrides = {1, 2, 4}, kFirstSteps = {1, 8, 16};  // of pixels, of filters
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
  const bool first = family == "first_layer";
  p.batch = first ? random.size(1, 4) : random.size(1, 16);
  p.in_w = first ? random.size(16, 224) : random.size(7, 112);
  p.in_h = family == "line" ? 1 : p.in_w;
  p.filter_w = family == "pointwise" ? 1 : random.one_of(first ? kFirstFilters : kFilters);
  p.filter_h = family == "line" ? 1 : p.filter_w;
  p.stride_w = first ? random.one_of(kFirstStrides) : random.one_of(kStrides);
  p.stride_h = family == "line" ? 1 : p.stride_w;
  p.pad_w = p.pad_high_w = p.filter_w / 2;
  p.pad_h = p.pad_high_h = p.filter_h / 2;
  if (family == "depthwise") {
    p.groups = random.size(16, 768, 8);
  } else if (family == "grouped") {
    p.groups = random.size(2, 32);
    p.c = p.k = random.size(4, 64, 4);
  } else if (first) {
    p.c = random.one_of(kFirstChannels);
    p.k = random.size(16, 128, random.one_of(kFirstSteps));
  } else {
    p.c = random.size(3, 512);
    p.k = random.size(16, 512, 8);
  }
  return p;
}

}  // namespace tilesmith
