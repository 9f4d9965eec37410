// Convolution as a product of matrices: what the rows, columns and depth of a tile number, and where an element of an
// operand lies that has such a number on each of its two axes.
//
// An axis numbers either pixels (image, then the three coordinates of a pixel) or taps and channels (the three
// coordinates of a tap, then the channel). Both are numbers of four digits. What an element's two numbers add to its
// address and, where it is one of an image, to its pixel's coordinates is added up; so padding, strides, dilation and
// channels are all sums of two axes, and a pixel outside the image is seen from its coordinates.
#pragma once

#include "../common/common.cuh"
#include "abi.h"

namespace ts::conv {

// A number of four digits, the last of which changes fastest. The first has no end.
struct Number {
  int digit[4];

  static TS_DEVICE Number of(i64 value, const int (&size)[4]) {
    Number n;
    if (value >> 31 == 0) {  // 64-bit divisions are slow
      u32 rest = static_cast<u32>(value);
#pragma unroll
      for (int d = 3; d > 0; --d) {
        const u32 higher = rest / static_cast<u32>(size[d]);
        n.digit[d] = static_cast<int>(rest - higher * static_cast<u32>(size[d]));
        rest = higher;
      }
      n.digit[0] = static_cast<int>(rest);
    } else {
#pragma unroll
      for (int d = 3; d > 0; --d) {
        const i64 higher = value / size[d];
        n.digit[d] = static_cast<int>(value - higher * size[d]);
        value = higher;
      }
      n.digit[0] = static_cast<int>(value);
    }
    return n;
  }
  TS_DEVICE void add(const Number& other, const int (&size)[4]) {
    int carry = 0;
#pragma unroll
    for (int d = 3; d > 0; --d) {
      digit[d] += other.digit[d] + carry;
      carry = digit[d] >= size[d];
      if (carry) digit[d] -= size[d];
    }
    digit[0] += other.digit[0] + carry;
  }
};

// What a number adds to an element's place.
struct Where {
  i64 offset;  // elements
  int pixel[3];
  bool there;
};

enum class Digits { pixels, taps };

template <Digits kDigits>
struct Axis {
  static constexpr int kCoordinate = kDigits == Digits::pixels ? 1 : 0;  // the digit of the first coordinate
  static constexpr int kOther = kDigits == Digits::pixels ? 0 : 3;       // that of the image, or of the channel
  int size[4];
  int first[3], step[3];  // of a pixel's coordinate
  i64 spatial[3];         // elements for a step of the coordinate
  i64 other;              // for an image, or a channel

  TS_DEVICE Where at(const Number& n) const {
    Where w;
    w.offset = n.digit[kOther] * other;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      w.pixel[d] = first[d] + n.digit[kCoordinate + d] * step[d];
      w.offset += w.pixel[d] * spatial[d];
    }
    w.there = n.digit[0] < size[0];
    return w;
  }
};

// All pixels of `batch` images of `size`, of which the coordinates are first + step * pixel.
TS_DEVICE Axis<Digits::pixels> pixel_axis(const TsConvStrides& s, i64 batch, const int (&size)[3],
                                          const int (&first)[3], const int (&step)[3]) {
  Axis<Digits::pixels> a;
  a.size[0] = static_cast<int>(batch);
  a.other = s.batch;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    a.size[d + 1] = size[d];
    a.first[d] = first[d];
    a.step[d] = step[d];
    a.spatial[d] = s.spatial[d];
  }
  return a;
}

// `taps` by `channels`, which are `channel` elements apart.
TS_DEVICE Axis<Digits::taps> tap_axis(const TsConvStrides& s, const int (&taps)[3], const int (&first)[3],
                                      const int (&step)[3], i64 channels, i64 channel) {
  Axis<Digits::taps> a;
  a.size[3] = static_cast<int>(channels);
  a.other = channel;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    a.size[d] = taps[d];
    a.first[d] = first[d];
    a.step[d] = step[d];
    a.spatial[d] = s.spatial[d];
  }
  return a;
}

// Channels alone: one tap, which adds nothing.
TS_DEVICE Axis<Digits::taps> channel_axis(i64 channels, i64 channel) {
  const int one[3] = {1, 1, 1}, none[3] = {};
  return tap_axis(TsConvStrides{}, one, none, none, channels, channel);
}

}  // namespace ts::conv
