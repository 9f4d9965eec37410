// The copies of the Hopper convolution kernels: of images by im2col maps, of filters tap by tap.
#pragma once

#include "../../gemm/hopper/ptx.cuh"

namespace ts::conv {

constexpr int kSpatial = cfg::kSpatial;

// The pixels of consecutive places of a window, from place (w, h, d) of image n on, at an offset. `at` is image and
// pixel, outer to inner; so is `offset`.
TS_DEVICE void load_places(u32 destination, const void* map, u32 barrier, int channel, const int (&at)[4],
                           const int (&offset)[3]) {
  if constexpr (kSpatial == 1) {
    asm volatile(
        "{ .reg .b16 w; cvt.u16.u32 w, %6;\n"
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2], {w}; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[0]), "r"(offset[2])
        : "memory");
  } else if constexpr (kSpatial == 2) {
    asm volatile(
        "{ .reg .b16 w, h; cvt.u16.u32 w, %7; cvt.u16.u32 h, %8;\n"
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2], {w, h}; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[0]), "r"(offset[2]), "r"(offset[1])
        : "memory");
  } else {
    asm volatile(
        "{ .reg .b16 w, h, d; cvt.u16.u32 w, %8; cvt.u16.u32 h, %9; cvt.u16.u32 d, %10;\n"
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6, %7}], [%2], {w, h, d}; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[1]), "r"(at[0]), "r"(offset[2]),
        "r"(offset[1]), "r"(offset[0])
        : "memory");
  }
}
// The pixels and their bytes' completion arrive at the same place in every block of `mask`.
TS_DEVICE void load_places_multicast(u32 destination, const void* map, u32 barrier, int channel, const int (&at)[4],
                                     const int (&offset)[3], u32 mask) {
  if constexpr (kSpatial == 1) {
    asm volatile(
        "{ .reg .b16 w, m; cvt.u16.u32 w, %6; cvt.u16.u32 m, %7;\n"
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5}], [%2], {w}, m; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[0]), "r"(offset[2]), "r"(mask)
        : "memory");
  } else if constexpr (kSpatial == 2) {
    asm volatile(
        "{ .reg .b16 w, h, m; cvt.u16.u32 w, %7; cvt.u16.u32 h, %8; cvt.u16.u32 m, %9;\n"
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5, %6}], [%2], {w, h}, m; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[0]), "r"(offset[2]), "r"(offset[1]),
        "r"(mask)
        : "memory");
  } else {
    asm volatile(
        "{ .reg .b16 w, h, d, m; cvt.u16.u32 w, %8; cvt.u16.u32 h, %9; cvt.u16.u32 d, %10; cvt.u16.u32 m, %11;\n"
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5, %6, %7}], [%2], {w, h, d}, m; }" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[1]), "r"(at[0]), "r"(offset[2]),
        "r"(offset[1]), "r"(offset[0]), "r"(mask)
        : "memory");
  }
}
// Writes consecutive pixels of a map without windows.
TS_DEVICE void store_pixels(const void* map, u32 source, int channel, const int (&at)[4]) {
  if constexpr (kSpatial == 1) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(source), "r"(channel), "r"(at[3]), "r"(at[0])
        : "memory");
  } else if constexpr (kSpatial == 2) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
        "r"(source), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[0])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
            map),
        "r"(source), "r"(channel), "r"(at[3]), "r"(at[2]), "r"(at[1]), "r"(at[0])
        : "memory");
  }
}

// Filters: channels of x, taps, channels of y, groups.
TS_DEVICE void load_filters(u32 destination, const void* map, u32 barrier, int c, int tap, int k, int group) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(c), "r"(tap), "r"(k), "r"(group)
      : "memory");
}
TS_DEVICE void store_filters(const void* map, u32 source, int c, int tap, int k, int group) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(source),
      "r"(c), "r"(tap), "r"(k), "r"(group)
      : "memory");
}

}  // namespace ts::conv
