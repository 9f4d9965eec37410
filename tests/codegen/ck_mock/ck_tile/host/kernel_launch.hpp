// A stand-in for CK Tile's launches.
#pragma once

#include "ck_tile/core.hpp"

namespace ck_tile {

struct stream_config {
  void* stream_id_ = nullptr;
  bool time_kernel_ = false;
};

#if TILESMITH_CK_VERSION >= 202605
template <index_t kMinBlocks, class ArchTag, class Kernel, class Kargs>
auto make_kernel(Kernel, dim3, dim3, std::size_t, Kargs) {
  static_assert(std::is_same_v<Kargs, typename Kernel::Kargs>);
  static_assert(std::is_class_v<ArchTag>);
  return [](const stream_config&) {};
}
template <index_t kMinBlocks, class ArchTag, class Kernel, class First, class Second, class... Rest>
auto make_kernel(Kernel, dim3, dim3, std::size_t, First, Second, Rest...) {
  static_assert(std::is_invocable_v<const Kernel&, First, Second, Rest...>, "the kernel takes other arguments");
  static_assert(std::is_class_v<ArchTag>);
  return [](const stream_config&) {};
}
#else
template <index_t kMaxThreads, index_t kMinBlocks, class Kernel, class Kargs>
auto make_kernel(Kernel, dim3, dim3, std::size_t, Kargs) {
  static_assert(std::is_same_v<Kargs, typename Kernel::Kargs>);
  static_assert(kMaxThreads == Kernel::kBlockSize);
  return [](const stream_config&) {};
}
#endif

template <class Prepare, class... Launches>
float launch_kernel_time_mask(const stream_config& stream, Prepare prepare, Launches... launches) {
  prepare();
  (launches(stream), ...);
  return 0.0f;
}
template <class... Launches>
float launch_kernel(const stream_config& stream, Launches... launches) {
  (launches(stream), ...);
  return 0.0f;
}

}  // namespace ck_tile
