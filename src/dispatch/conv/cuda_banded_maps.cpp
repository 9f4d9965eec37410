#include "dispatch/conv/cuda_banded_maps.hpp"

#include <numeric>

namespace tilesmith {
namespace {

constexpr int kChannelsOfTile = 32;  // kernels/cuda/conv/banded/planes.cuh

struct TileOfMap {
  int images, rows, columns;
};

/// Tiles of pixels that are `apart`.
Status encode_tiles(const CudaContext& context, const ConvProblem& p, const void* data, const ConvStrides& s,
                    const ConvSpatial& size, const TileOfMap& tile, const ConvSpatial& apart, TsCudaTensorMap& map) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * 2; };
  // The stride of an only pixel is not the caller's: any valid one will do.
  const std::int64_t pixel = size[2] > 1 ? s.spatial[2] : p.groups, row = size[1] > 1 ? s.spatial[1] : pixel * size[2];
  const std::int64_t slice = size[0] > 1 ? s.spatial[0] : row * size[1];
  const std::int64_t image = p.batch > 1 ? s.batch : slice * size[0];
  // A tile that steps over pixels is as long as from its first to its last.
  const auto length = [&](int pixels, std::size_t d) {
    return static_cast<std::uint32_t>((pixels - 1) * apart[d] + 1);
  };
  const auto extent = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements); };
  const TensorMapDimension dimensions[] = {
      {extent(p.groups), 0, kChannelsOfTile},
      {extent(size[2]), bytes(pixel), length(tile.columns, 2), static_cast<std::uint32_t>(apart[2])},
      {extent(size[1]), bytes(row), length(tile.rows, 1), static_cast<std::uint32_t>(apart[1])},
      {extent(size[0]), bytes(slice), 1},
      {extent(p.batch), bytes(image), static_cast<std::uint32_t>(tile.images)}};
  return encode_tensor_map(context, {.element = TensorMapElement::u16, .swizzle = TensorMapSwizzle::b64}, data,
                           dimensions, map);
}

}  // namespace

Status encode_banded_maps(const CudaContext& context, const ConvProblem& p, const ConvArguments& a, int taps,
                          int images, TsCudaConvBandedMaps& maps) {
  const bool data = p.direction == ConvDirection::backward_data;
  ConvSpatial hop = p.dilation(), phases{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t common = std::gcd(p.stride()[d], p.dilation()[d]);
    if (data) hop[d] /= common;
    phases[d] = std::min(p.out()[d], p.dilation()[d] / common);
  }
  const int side = images == 1 ? 16 : 8;
  const TileOfMap read{images, side - 1 + taps, side + 8}, of_y{images, side, side};
  if (p.direction == ConvDirection::backward_weight)
    TS_TRY(encode_tiles(context, p, a.y, a.y_strides, p.out(), of_y, phases, maps.y));
  if (data) return encode_tiles(context, p, a.y, a.y_strides, p.out(), read, hop, maps.read);
  return encode_tiles(context, p, a.x, a.x_strides, p.in(), read, hop, maps.read);
}

}  // namespace tilesmith
