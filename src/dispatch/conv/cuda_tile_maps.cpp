#include "dispatch/conv/cuda_tile_maps.hpp"

#include <numeric>

namespace tilesmith {
namespace {

/// Tiles of `rows` x `columns` pixels that are `apart`.
Status encode_tiles(const CudaContext& context, const ConvProblem& p, const void* data, const ConvStrides& s,
                    const ConvSpatial& size, const CudaConvMappedTile& tile, int rows, int columns,
                    const ConvSpatial& apart, TsCudaTensorMap& map) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * 2; };
  // The stride of an only pixel is not the caller's: any valid one will do.
  const std::int64_t channels = p.groups * p.c;  // as many of y: such kernels have as many filters
  const std::int64_t pixel = size[2] > 1 ? s.spatial[2] : channels, row = size[1] > 1 ? s.spatial[1] : pixel * size[2];
  const std::int64_t slice = size[0] > 1 ? s.spatial[0] : row * size[1];
  const std::int64_t image = p.batch > 1 ? s.batch : slice * size[0];
  // A tile that steps over pixels is as long as from its first to its last.
  const auto length = [&](int pixels, std::size_t d) {
    return static_cast<std::uint32_t>((pixels - 1) * apart[d] + 1);
  };
  const auto extent = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements); };
  const TensorMapDimension dimensions[] = {
      {extent(channels), 0, static_cast<std::uint32_t>(tile.channels)},
      {extent(size[2]), bytes(pixel), length(columns, 2), static_cast<std::uint32_t>(apart[2])},
      {extent(size[1]), bytes(row), length(rows, 1), static_cast<std::uint32_t>(apart[1])},
      {extent(size[0]), bytes(slice), 1},
      {extent(p.batch), bytes(image), static_cast<std::uint32_t>(tile.images)}};
  const TensorMapSwizzle swizzle = !tile.swizzled        ? TensorMapSwizzle::none
                                   : tile.channels == 64 ? TensorMapSwizzle::b128
                                                         : TensorMapSwizzle::b64;
  return encode_tensor_map(context, {.element = TensorMapElement::u16, .swizzle = swizzle}, data, dimensions, map);
}

}  // namespace

Status encode_tile_maps(const CudaContext& context, const ConvProblem& p, const ConvArguments& a,
                        const CudaConvMappedTile& tile, TsCudaConvTileMaps& maps) {
  const bool data = p.direction == ConvDirection::backward_data;
  ConvSpatial hop = p.dilation(), phases{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t common = std::gcd(p.stride()[d], p.dilation()[d]);
    if (data) hop[d] /= common;
    phases[d] = std::min(p.out()[d], p.dilation()[d] / common);
  }
  if (p.direction == ConvDirection::backward_weight)
    TS_TRY(
        encode_tiles(context, p, a.y, a.y_strides, p.out(), tile, tile.rows_of_y, tile.columns_of_y, phases, maps.y));
  return encode_tiles(context, p, data ? a.y : a.x, data ? a.y_strides : a.x_strides, data ? p.out() : p.in(), tile,
                      tile.rows, tile.columns, hop, maps.read);
}

}  // namespace tilesmith
