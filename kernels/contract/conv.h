// What a convolution call means, for kernels of every backend: its tensors, its sizes, and the three results of which a
// kernel computes one. The host includes this file, and the code generator copies its text into every generated source,
// so both sides agree by construction. It includes nothing.
//
// With pixels o of y and i of x, taps t of the filter, all of three coordinates, and t meeting i from o where
//   i = o * stride + t * dilation - pad      in every coordinate, and i lies inside x
// and with channels c of x and k of y within a group, the results are
//
//   forward           y[n][g][k][o] = sum over t and c       of x[n][g][c][i] * w[g][k][c][t]
//   backward data     x[n][g][c][i] = sum over t, k and o    of y[n][g][k][o] * w[g][k][c][t]
//   backward weight   w[g][k][c][t] = sum over n and o       of x[n][g][c][i] * y[n][g][k][o]
//
// Products are of the tensors' elements, sums are fp32. The result is written whole, whatever it held before; elements
// that no product reaches are zeros (or what the epilogue makes of zero).
#pragma once

// Element (n, g, c, pixel) lies at n * batch + g * group + c * channel + sum of pixel[d] * spatial[d]. Of w, `batch` is
// the step between its output channels k. Steps count elements.
struct TsConvStrides {
  long long batch, group, channel;
  long long spatial[3];
};

struct TsConvCall {
  const void* x;  // the result's pointer is null: it is written at `out`
  const void* w;
  const void* y;
  void* out;
  TsConvStrides x_strides, w_strides, y_strides;
  long long batch, groups;
  long long c, k;  // channels of x and of y in a group
  // By coordinate, outer to inner. Coordinates that a problem lacks have sizes, strides and dilations of 1, and pad 0.
  long long x_size[3], y_size[3], filter[3];  // pixels of x and of y, taps
  long long stride[3], dilation[3], pad[3];
};
