// Boxes of neighbouring results, the box of pixels that the taps of one meet, and the order in which blocks take them.
// The caller works out their sizes (TsCudaConvBoxes): divisions at the start of a block took longer than its products.
#pragma once

#include "../phases.cuh"

namespace ts::conv {

// The results of all phases of backward data that have the same number along each coordinate are columns of one row: they
// meet neighbouring pixels of y, of which the one with number 0 meets none before `earliest`. Dilation is 1.
struct AllPhases {
  static TS_DEVICE int along(const TsCudaConvArgs& args, int d) {
    return imin(static_cast<int>(args.stride[d]), static_cast<int>(args.x_size[d]));
  }
  static TS_DEVICE int earliest(const TsCudaConvArgs& args, int d) {
    const int reached = static_cast<int>(args.pad[d] - args.filter[d]) + 1, stride = static_cast<int>(args.stride[d]);
    return reached < 0 ? -(-reached / stride) : ceil_div(reached, stride);
  }
  // As one phase, in which pixels are taps.
  static TS_DEVICE Phase as_one(const TsCudaConvArgs& args) {
    Phase p;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      p.first[d] = p.tap[d] = p.from[d] = 0;
      p.pixels[d] = ceil_div(static_cast<int>(args.x_size[d]), static_cast<int>(args.stride[d]));
      p.taps[d] = args.boxes.taps[d];
    }
    return p;
  }
};

TS_DEVICE Phase phase_of_box(const TsCudaConvArgs& args, int number) {
  if constexpr (cfg::kAllPhases)
    return AllPhases::as_one(args);
  else
    return phase_of(args, number);
}

struct Boxes {
  const TsCudaConvBoxes& sizes;

  TS_DEVICE int all_pixels() const { return sizes.pixels[0] * sizes.pixels[1] * sizes.pixels[2]; }
  TS_DEVICE int all_taps() const { return sizes.taps[0] * sizes.taps[1] * sizes.taps[2]; }

  // The pixel of the image that is read at which the box of a phase begins, for results from `at` on.
  TS_DEVICE int first_pixel(const TsCudaConvArgs& args, const Phase& p, int d, int at) const {
    if constexpr (cfg::kAllPhases) return at + AllPhases::earliest(args, d);
    return cfg::kDirection == TS_CONV_BACKWARD_DATA ? at + p.from[d] - (p.taps[d] - 1) * sizes.hop[d]
                                                    : at * sizes.apart[d] - static_cast<int>(args.pad[d]);
  }
  // The number of a box's pixel that tap `tap` meets from the box's first result.
  TS_DEVICE int pixel_of_tap(const Phase& p, const int (&tap)[3]) const {
    int number = 0;
#pragma unroll
    for (int d = 0; d < 3; ++d)
      number = number * sizes.pixels[d] +
               (cfg::kDirection == TS_CONV_BACKWARD_DATA && !cfg::kAllPhases ? p.taps[d] - 1 - tap[d] : tap[d]) * sizes.hop[d];
    return number;
  }
};

// A block's work, digit by digit, the last of which changes fastest: phase, group, columns of the result's channels,
// image, and the box by coordinate. What lies beside each other in memory is read and written at a time: neighbouring
// blocks have neighbouring columns and groups of a box, so that parts of a sector of the result meet in the cache.
struct Item {
  int digit[TS_CONV_BOX_DIGITS];
  int own_group, own_columns;  // of those that are beside each other

  static TS_DEVICE Item at(const TsCudaConvBoxes& sizes, u32 block) {
    Item it;
    const u32 groups = block / static_cast<u32>(sizes.beside[1]);
    u32 number = groups / static_cast<u32>(sizes.beside[0]);
    it.own_columns = static_cast<int>(block - groups * static_cast<u32>(sizes.beside[1]));
    it.own_group = static_cast<int>(groups - number * static_cast<u32>(sizes.beside[0]));
#pragma unroll
    for (int i = TS_CONV_BOX_DIGITS - 1; i > 0; --i) {
      const u32 higher = number / static_cast<u32>(sizes.size[i]);
      it.digit[i] = static_cast<int>(number - higher * static_cast<u32>(sizes.size[i]));
      number = higher;
    }
    it.digit[0] = static_cast<int>(number);
    return it;
  }
  // The block's next one.
  TS_DEVICE Item next(const TsCudaConvBoxes& sizes) const {
    Item it;
    it.own_group = own_group, it.own_columns = own_columns;
    int carry = 0;
#pragma unroll
    for (int i = TS_CONV_BOX_DIGITS - 1; i > 0; --i) {
      it.digit[i] = digit[i] + sizes.step[i] + carry;
      carry = it.digit[i] >= sizes.size[i];
      if (carry) it.digit[i] -= sizes.size[i];
    }
    it.digit[0] = digit[0] + sizes.step[0] + carry;
    return it;
  }
  TS_DEVICE bool is_there(const TsCudaConvBoxes& sizes) const { return digit[0] < sizes.size[0]; }

  TS_DEVICE int phase() const { return digit[0]; }
  TS_DEVICE int group(const TsCudaConvBoxes& sizes) const { return digit[1] * sizes.beside[0] + own_group; }
  TS_DEVICE int column(const TsCudaConvBoxes& sizes) const {
    return (digit[2] * sizes.beside[1] + own_columns) * cfg::kTileN;
  }
  TS_DEVICE int image() const { return digit[3]; }
  TS_DEVICE int box(int d) const { return digit[4 + d]; }
  TS_DEVICE bool shares_filters(const Item& other) const {
    return digit[0] == other.digit[0] && digit[1] == other.digit[1] && digit[2] == other.digit[2];
  }
};

}  // namespace ts::conv
