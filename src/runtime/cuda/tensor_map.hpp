// Tensor maps: how the copy engine of Hopper and later finds a tile of a tensor.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "kernels/cuda/common/tensor_map.h"
#include "runtime/cuda/context.hpp"

namespace tilesmith {

// The values are the driver's.
enum class TensorMapElement : std::uint8_t {
  u8,
  u16,
  u32,
  i32,
  u64,
  i64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz
};
enum class TensorMapSwizzle : std::uint8_t { none, b32, b64, b128 };     ///< bytes of a row whose chunks are permuted
enum class TensorMapPromotion : std::uint8_t { none, b64, b128, b256 };  ///< bytes a miss brings into L2
enum class TensorMapFill : std::uint8_t { zero, nan };                   ///< what lies outside the tensor

struct TensorMapFormat {
  TensorMapElement element = TensorMapElement::bf16;
  TensorMapSwizzle swizzle = TensorMapSwizzle::b128;
  TensorMapPromotion promotion = TensorMapPromotion::b128;
  TensorMapFill fill = TensorMapFill::zero;
};

/// One dimension of the tensor and of the tile.
struct TensorMapDimension {
  std::uint64_t extent = 1;        ///< elements of the tensor, 1 to 2^32
  std::uint64_t stride_bytes = 0;  ///< to the next element; of the innermost dimension ignored: it is contiguous
  std::uint32_t box = 1;           ///< elements of the tile, 1 to 256
  std::uint32_t step = 1;          ///< every so many elements, 1 to 8; of the innermost dimension ignored
};

[[nodiscard]] std::size_t bytes_of(TensorMapElement element);

/// Encodes a map of the tensor at a device address, dimensions innermost first, one to five. The address is 16-byte
/// aligned, strides are multiples of 16 bytes below 2^40, a tile's innermost row is a multiple of 16 bytes and, with a
/// swizzle, no longer than it. Error: `invalid_argument` naming the dimension and the rule. Takes about 1 us, allocates
/// nothing.
[[nodiscard]] Status encode_tensor_map(const CudaContext& context, const TensorMapFormat& format, const void* address,
                                       std::span<const TensorMapDimension> dimensions, TsCudaTensorMap& map);

/// One coordinate of an image.
struct Im2colDimension {
  std::uint64_t extent = 1;        ///< pixels
  std::uint64_t stride_bytes = 0;  ///< from pixel to pixel
  int lower = 0;                   ///< the first pixel of a window's place, below 0 where there is padding before it
  int upper = 0;                   ///< that of its last place, less the last pixel of the image
  std::uint32_t step = 1;          ///< pixels from one place to the next, 1 to 8
};

/// Encodes a map whose tile is `pixels` (at most 1024) of the places that a window has in images of `channels`
/// channels, in their order, by `box_channels` channels (at most 256, and no longer than the swizzle): what the copy
/// engine brings is the pixel at an offset from each place. Coordinates innermost first, one to three. The limits of
/// lower and upper (of three coordinates -16 to 15, of two -128 to 127, of one 16 bits) and the other rules are the
/// driver's. Errors as of encode_tensor_map.
[[nodiscard]] Status encode_im2col_map(const CudaContext& context, const TensorMapFormat& format, const void* address,
                                       std::uint64_t channels, std::span<const Im2colDimension> image,
                                       std::uint64_t images, std::uint64_t image_stride_bytes,
                                       std::uint32_t box_channels, std::uint32_t pixels, TsCudaTensorMap& map);

/// The same tensor elsewhere: changes the address of an encoded map.
[[nodiscard]] Status replace_address(const CudaContext& context, const void* address, TsCudaTensorMap& map);

}  // namespace tilesmith
