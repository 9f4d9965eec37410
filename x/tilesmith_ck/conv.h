// Grouped convolution on Composable Kernel: the arguments of a call, the record of an instance, and which calls an
// instance serves. X is the image, W the filters, Y the output; a backward call writes the gradient in its place.
// Layouts are those with channels last: X (n, spatial..., group, c), W (group, k, filter..., c), Y (n, spatial...,
// group, k). Depthwise kernels have X and Y as (n, group, height, width) and W as (group, height, width).
#pragma once

#include "tilesmith_ck/registry.h"

namespace tilesmith_ck {

enum class ConvDirection { fwd, bwd_data, bwd_weight };
enum class ConvType { fp16, bf16, fp32 };
/// What a kernel takes for granted of the filter: 1x1 without pads (and with stride 1), or 3x3.
enum class ConvFilter { any, filter1x1_pad0, filter1x1_stride1_pad0, filter3x3 };

struct ConvRecord {
  ConvDirection direction = ConvDirection::fwd;
  ConvType type = ConvType::fp16;
  int dims = 2;
  ConvFilter filter = ConvFilter::any;
  int groups_merged = 1;   ///< groups that one GEMM computes
  bool two_stage = false;  ///< sums in float32 in the workspace, then a conversion
  bool stream_k = false;
  bool depthwise = false;
  int tile_m = 0, tile_n = 0, tile_k = 0;
  // depthwise
  int filter_size = 0, stride_h = 0, stride_w = 0, pad = 0, images = 1;
};

struct ConvArguments {
  // which kernel
  ConvDirection direction = ConvDirection::fwd;
  ConvType type = ConvType::fp16;
  bool depthwise = false;  ///< in the depthwise kernels' layouts, with c = k = 1
  bool two_stage = false, stream_k = false;
  // sizes; c and k are those of one group, arrays hold `dims` figures from the outermost dimension inwards
  int dims = 2, groups = 1, n = 0, c = 0, k = 0;
  int input[3] = {}, filter[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int left_pad[3] = {}, right_pad[3] = {};
  void *x = nullptr, *w = nullptr, *y = nullptr;  ///< on the device; what the direction reads is not written
  int k_batch = 1;                                ///< backward weight: parts of the sum, added into dW
  void* workspace = nullptr;                      ///< on the device: as many bytes as the instance's workspace() says
};

/// Elements of X for each group and channel, and of W.
inline std::size_t image_points(const ConvArguments& a) {
  std::size_t points = 1;
  for (int i = 0; i < a.dims; ++i) points *= static_cast<std::size_t>(a.input[i]);
  return points;
}
inline std::size_t filter_points(const ConvArguments& a) {
  std::size_t points = 1;
  for (int i = 0; i < a.dims; ++i) points *= static_cast<std::size_t>(a.filter[i]);
  return points;
}

/// Whether a kernel may compute a call. The kernel's own test, before each launch, knows more: vectors, channels.
inline bool serves(const ConvRecord& r, const ConvArguments& a) {
  if (r.direction != a.direction || r.type != a.type || r.dims != a.dims || r.depthwise != a.depthwise ||
      r.two_stage != a.two_stage || r.stream_k != a.stream_k || a.groups % r.groups_merged != 0)
    return false;
  if (a.k_batch != 1 && (a.direction != ConvDirection::bwd_weight || r.stream_k)) return false;
  if (r.depthwise)
    return a.c == 1 && a.k == 1 && a.n % r.images == 0 && a.filter[0] == r.filter_size && a.filter[1] == r.filter_size &&
           a.stride[0] == r.stride_h && a.stride[1] == r.stride_w && a.dilation[0] == 1 && a.dilation[1] == 1 &&
           a.left_pad[0] == r.pad && a.left_pad[1] == r.pad && a.right_pad[0] == r.pad && a.right_pad[1] == r.pad;
  if (r.filter == ConvFilter::any) return true;
  for (int i = 0; i < a.dims; ++i) {
    if (a.filter[i] != (r.filter == ConvFilter::filter3x3 ? 3 : 1)) return false;
    if (r.filter != ConvFilter::filter3x3 && (a.left_pad[i] != 0 || a.right_pad[i] != 0)) return false;
    if (r.filter == ConvFilter::filter1x1_stride1_pad0 && a.stride[i] != 1) return false;
  }
  return true;
}

/// What takes more for granted comes first, then larger tiles.
inline bool comes_before(const ConvRecord& a, const ConvRecord& b) {
  if (a.filter != b.filter) return a.filter > b.filter;
  return a.tile_m * a.tile_n > b.tile_m * b.tile_n;
}

using ConvInstance = Instance<ConvRecord, ConvArguments>;

}  // namespace tilesmith_ck
