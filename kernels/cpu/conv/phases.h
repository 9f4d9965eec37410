// Which pixels of the image a pixel of the result meets. The image is what is read by pixels (forward: x, backward
// data: y), the result what is written.
//
// Backward data with a stride goes by phases: pixels of x whose coordinates leave the same remainders by the strides
// meet the same taps, each of them a pixel of y or the border. So nothing is multiplied with zeros between pixels.

constexpr bool kForward = kDirection == Direction::forward;

TS_INLINE long long image_channels(const TsConvArgs& args) {
  return kForward ? args.c : args.k;
}
TS_INLINE long long result_channels(const TsConvArgs& args) {
  return kForward ? args.k : args.c;
}
TS_INLINE const TsConvStrides& image_strides(const TsConvArgs& args) {
  return kForward ? args.x_strides : args.y_strides;
}
TS_INLINE const TsConvStrides& result_strides(const TsConvArgs& args) {
  return kForward ? args.y_strides : args.x_strides;
}

// One coordinate in one phase. Pixel i of the phase is pixel first + i * step of the result; at its tap number j, tap
// tap_first + j * tap_step of the filter, it meets pixel i * pace + start + j * hop of the image, which has `size`.
struct Axis {
  long long first, step, count;
  long long pace, start, hop, size;
  long long tap_first, tap_step, taps;
};

TS_INLINE long long phases_of(const TsConvArgs& args, int d) {
  return kForward ? 1 : min_of(args.stride[d], args.x_size[d]);
}

inline Axis axis_of(const TsConvArgs& args, int d, long long phase) {
  const long long stride = args.stride[d], dilation = args.dilation[d], taps = args.filter[d];
  if constexpr (kForward) return {0, 1, args.y_size[d], stride, -args.pad[d], dilation, args.x_size[d], 0, 1, taps};
  // Taps whose distance is a multiple of `period` leave the same remainder.
  long long period = 1;
  while (period * dilation % stride != 0) ++period;
  long long tap = 0;
  const long long end = min_of(period, taps);
  while (tap < end && (phase + args.pad[d] - tap * dilation) % stride != 0) ++tap;
  Axis axis = {phase, stride, blocks_of(args.x_size[d] - phase, stride), 1, 0, 0, args.y_size[d], tap, period, 0};
  if (tap == end) return axis;  // no tap reaches this phase
  axis.start = (phase + args.pad[d] - tap * dilation) / stride;
  axis.hop = -(period * dilation / stride);
  axis.taps = (taps - 1 - tap) / period + 1;
  return axis;
}

struct Phase {
  Axis axis[3];
  long long rows, taps;  // pixels of the phase in the whole batch; taps that reach it
};

inline Phase phase_of(const TsConvArgs& args, long long number) {
  Phase phase;
  phase.rows = args.batch;
  phase.taps = 1;
  for (int d = 2; d >= 0; --d) {
    const long long phases = phases_of(args, d);
    phase.axis[d] = axis_of(args, d, number % phases);
    number /= phases;
    phase.rows *= phase.axis[d].count;
    phase.taps *= phase.axis[d].taps;
  }
  return phase;
}

// A pixel of a phase by its coordinates there.
struct Place {
  long long member;
  long long i[3];

  Place(const Phase& phase, long long row) {
    for (int d = 2; d >= 0; --d) {
      i[d] = row % phase.axis[d].count;
      row /= phase.axis[d].count;
    }
    member = row;
  }
  void advance(const Phase& phase, long long pixels = 1) {
    i[2] += pixels;  // at most to the end of the row
    for (int d = 2; i[d] == phase.axis[d].count; --d) {
      i[d] = 0;
      if (d == 0) {
        ++member;
        return;
      }
      ++i[d - 1];
    }
  }
};
