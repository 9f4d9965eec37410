#include "runtime/cuda/tensor_map.hpp"

#include <fmt/core.h>

#include <array>

namespace tilesmith {
namespace {

constexpr std::size_t kMaxRank = 5;
constexpr std::uint64_t kLargestExtent = 1ull << 32;
constexpr std::uint64_t kLargestStride = 1ull << 40;
constexpr std::uint64_t kUnit = 16;  // bytes: the copy engine's granule
constexpr int kNoInterleave = 0;

std::unexpected<Error> refuse(std::string what, std::string rule) {
  return fail(ErrorCode::invalid_argument, "tensor map: " + std::move(what), std::move(rule));
}

std::uint64_t swizzle_bytes(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::none ? 0 : 16ull << static_cast<int>(swizzle);
}

// The driver answers every broken rule with "invalid argument": these are its documented rules, so that the message can
// name the one.
Status check(const TensorMapFormat& format, const void* address, std::span<const TensorMapDimension> dimensions) {
  if (dimensions.empty() || dimensions.size() > kMaxRank)
    return refuse(fmt::format("{} dimensions", dimensions.size()), "1 to 5");
  if (reinterpret_cast<std::uintptr_t>(address) % kUnit != 0)
    return refuse(fmt::format("address {} is not 16-byte aligned", address), "align the tensor to 16 bytes");
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const TensorMapDimension& dimension = dimensions[i];
    if (dimension.extent < 1 || dimension.extent > kLargestExtent)
      return refuse(fmt::format("dimension {} has {} elements", i, dimension.extent), "1 to 2^32");
    if (dimension.box < 1 || dimension.box > 256)
      return refuse(fmt::format("the tile has {} elements in dimension {}", dimension.box, i), "1 to 256");
    if (i == 0) continue;
    if (dimension.step < 1 || dimension.step > 8)
      return refuse(fmt::format("dimension {} has step {}", i, dimension.step), "1 to 8");
    if (dimension.stride_bytes % kUnit != 0 || dimension.stride_bytes >= kLargestStride)
      return refuse(fmt::format("dimension {} has a stride of {} bytes", i, dimension.stride_bytes),
                    "a multiple of 16 below 2^40");
  }
  const std::uint64_t row = dimensions[0].box * bytes_of(format.element);
  if (row % kUnit != 0)
    return refuse(fmt::format("a row of the tile has {} bytes ({} elements of dimension 0)", row, dimensions[0].box),
                  "a multiple of 16 bytes");
  if (const std::uint64_t span = swizzle_bytes(format.swizzle); span != 0 && row > span)
    return refuse(fmt::format("a row of the tile has {} bytes, the swizzle {}", row, span),
                  "a row no longer than the swizzle, or no swizzle");
  return {};
}

std::string describe(const void* address, std::span<const TensorMapDimension> dimensions) {
  std::string text = fmt::format("encoding a tensor map at {}", address);
  for (const TensorMapDimension& each : dimensions)
    text += fmt::format(", {} elements of stride {} in tiles of {}", each.extent, each.stride_bytes, each.box);
  return text;
}

}  // namespace

std::size_t bytes_of(TensorMapElement element) {
  switch (element) {
    case TensorMapElement::u8:
      return 1;
    case TensorMapElement::u16:
    case TensorMapElement::f16:
    case TensorMapElement::bf16:
      return 2;
    case TensorMapElement::u64:
    case TensorMapElement::i64:
    case TensorMapElement::f64:
      return 8;
    default:
      return 4;
  }
}

Status encode_tensor_map(const CudaContext& context, const TensorMapFormat& format, const void* address,
                         std::span<const TensorMapDimension> dimensions, TsCudaTensorMap& map) {
  TS_TRY(check(format, address, dimensions));
  std::array<std::uint64_t, kMaxRank> extents{}, strides{};
  std::array<std::uint32_t, kMaxRank> box{}, steps{};
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    extents[i] = dimensions[i].extent;
    box[i] = dimensions[i].box;
    steps[i] = i == 0 ? 1 : dimensions[i].step;
    if (i > 0) strides[i - 1] = dimensions[i].stride_bytes;
  }
  // The driver asks the current context's device for its rules, although nothing happens on it.
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const cu::Code code = context.driver().tensor_map_encode_tiled(
      &map, static_cast<int>(format.element), static_cast<unsigned>(dimensions.size()), const_cast<void*>(address),
      extents.data(), strides.data(), box.data(), steps.data(), kNoInterleave, static_cast<int>(format.swizzle),
      static_cast<int>(format.promotion), static_cast<int>(format.fill));
  if (code == cu::Code::success) [[likely]]
    return {};
  return std::unexpected(cuda_error(context.driver(), code, describe(address, dimensions)));
}

Status encode_im2col_map(const CudaContext& context, const TensorMapFormat& format, const void* address,
                         std::uint64_t channels, std::span<const Im2colDimension> image, std::uint64_t images,
                         std::uint64_t image_stride_bytes, std::uint32_t box_channels, std::uint32_t pixels,
                         TsCudaTensorMap& map) {
  if (image.empty() || image.size() > kMaxRank - 2)
    return refuse(fmt::format("{} coordinates of an image", image.size()), "1 to 3");
  if (pixels < 1 || pixels > 1024) return refuse(fmt::format("{} pixels in a tile", pixels), "1 to 1024");
  const int most = image.size() == 1 ? 1 << 15 : image.size() == 2 ? 1 << 7 : 1 << 4;
  // The rules of tiled maps hold for the others too.
  std::array<TensorMapDimension, kMaxRank> dimensions{};
  const std::size_t rank = image.size() + 2;
  dimensions[0] = {.extent = channels, .box = box_channels};
  std::array<int, kMaxRank> lower{}, upper{};
  for (std::size_t i = 0; i < image.size(); ++i) {
    dimensions[i + 1] = {.extent = image[i].extent, .stride_bytes = image[i].stride_bytes, .step = image[i].step};
    lower[i] = image[i].lower;
    upper[i] = image[i].upper;
    if (lower[i] < -most || lower[i] >= most || upper[i] < -most || upper[i] >= most)
      return refuse(fmt::format("a window from {} to {} in coordinate {}", lower[i], upper[i], i),
                    fmt::format("{} to {}", -most, most - 1));
  }
  dimensions[rank - 1] = {.extent = images, .stride_bytes = image_stride_bytes};
  const std::span<const TensorMapDimension> all(dimensions.data(), rank);
  TS_TRY(check(format, address, all));
  std::array<std::uint64_t, kMaxRank> extents{}, strides{};
  std::array<std::uint32_t, kMaxRank> steps{};
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = all[i].extent;
    steps[i] = all[i].step;
    if (i > 0) strides[i - 1] = all[i].stride_bytes;
  }
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const cu::Code code = context.driver().tensor_map_encode_im2col(
      &map, static_cast<int>(format.element), static_cast<unsigned>(rank), const_cast<void*>(address), extents.data(),
      strides.data(), lower.data(), upper.data(), box_channels, pixels, steps.data(), kNoInterleave,
      static_cast<int>(format.swizzle), static_cast<int>(format.promotion), static_cast<int>(format.fill));
  if (code == cu::Code::success) [[likely]]
    return {};
  return std::unexpected(cuda_error(context.driver(), code, describe(address, all)));
}

Status replace_address(const CudaContext& context, const void* address, TsCudaTensorMap& map) {
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const cu::Code code = context.driver().tensor_map_replace_address(&map, const_cast<void*>(address));
  if (code == cu::Code::success) [[likely]]
    return {};
  return std::unexpected(cuda_error(context.driver(), code, fmt::format("moving a tensor map to {}", address)));
}

}  // namespace tilesmith
