#include "dispatch/conv/cuda_halo_maps.hpp"

#include <array>
#include <span>

#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {

Status encode_halo_map(const CudaContext& context, const ConvProblem& p, const void* data, const ConvStrides& s,
                       std::int64_t channels, const ConvSpatial& size, int columns, int rows, int step,
                       TsCudaTensorMap& map, bool has_slices) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * 2; };
  // The stride of an only pixel is not the caller's: any valid one will do.
  const std::int64_t all = p.groups * channels;
  const std::int64_t pixel = size[2] > 1 ? s.spatial[2] : all, row = size[1] > 1 ? s.spatial[1] : pixel * size[2];
  const std::int64_t slice = size[0] > 1 ? s.spatial[0] : row * size[1];
  const std::int64_t image = p.batch > 1 ? s.batch : slice * size[0];
  // A box that steps over pixels is as long as from its first to its last.
  const auto box = [&](int pixels) { return static_cast<std::uint32_t>((pixels - 1) * step + 1); };
  const auto every = static_cast<std::uint32_t>(step);
  const TensorMapDimension images{static_cast<std::uint64_t>(p.batch), bytes(image), 1};
  const std::array<TensorMapDimension, 5> dimensions{
      {{static_cast<std::uint64_t>(all), 0, 64},
       {static_cast<std::uint64_t>(size[2]), bytes(pixel), box(columns), every},
       {static_cast<std::uint64_t>(size[1]), bytes(row), box(rows), every},
       has_slices ? TensorMapDimension{static_cast<std::uint64_t>(size[0]), bytes(slice), 1} : images,
       images}};
  return encode_tensor_map(context, {.element = TensorMapElement::u16}, data,
                           std::span(dimensions).first(has_slices ? 5 : 4), map);
}

}  // namespace tilesmith
