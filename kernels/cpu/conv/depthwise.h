// Depthwise convolution, forward and backward data: groups of one channel lie along the lanes, so that a tap of a pixel
// is a vector of the image times a vector of weights. A task computes a run of pixels for a block of groups. Only taps
// that meet the image are visited: nothing is multiplied with the border.

constexpr int kBlockGroups = 4 * kLanes;  // of a task
constexpr int kPixelsOfTask = 256;

// Packed weights: for each vector of groups its taps behind one another.
long long workspace_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return 4 * blocks_of(args.groups, kLanes) * kLanes * taps_of(args);
}

long long scratch_size(const void*) {
  return 4ll * 4 * kBlockGroups;
}

long long pack_tasks(const void* args_pointer) {
  return blocks_of(arguments(args_pointer).groups, kLanes);
}

void run_pack(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const TsConvStrides& s = args.w_strides;
  const long long taps = taps_of(args), group = task * kLanes;
  const int count = (int)min_of(kLanes, args.groups - group);
  float* const to = static_cast<float*>(args.workspace) + group * taps;
  for (long long tap = 0; tap < taps; ++tap) {
    const long long h = tap / args.filter[2];
    const Stored* const from = static_cast<const Stored*>(args.w) + group * s.group +
                               h / args.filter[1] * s.spatial[0] + h % args.filter[1] * s.spatial[1] +
                               tap % args.filter[2] * s.spatial[2];
    store(to + tap * kLanes, load_stepped(from, s.group, count));
  }
}

// Pixels of a task: runs of the phases' lines, which are pixels along the innermost coordinate.
struct Grid {
  long long phases, lines, runs, blocks;

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)),
        blocks(blocks_of(args.groups, kBlockGroups)) {
    const Phase first = phase_of(args, 0);  // has as many pixels as any
    lines = first.rows / first.axis[2].count;
    runs = blocks_of(lines, lines_of_task(first));
  }
  [[nodiscard]] static long long lines_of_task(const Phase& phase) {
    return max_of(1, kPixelsOfTask / phase.axis[2].count);
  }
};

long long data_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  if (args.batch == 0) return 0;
  const Grid grid(args);
  return grid.phases * grid.runs * grid.blocks;
}

// Taps first .. end - 1 of an axis meet the image from pixel i of the phase.
struct Met {
  long long first, end;
};

inline Met met_by(const Axis& axis, long long i) {
  Met met = {0, axis.taps};
  const auto inside = [&](long long tap) {
    const long long at = i * axis.pace + axis.start + tap * axis.hop;
    return at >= 0 && at < axis.size;
  };
  while (met.first < met.end && !inside(met.first)) ++met.first;
  while (met.first < met.end && !inside(met.end - 1)) --met.end;
  return met;
}

// Pixels of a line all of whose taps meet the image.
inline Met met_by_all(const Axis& axis) {
  const long long reach = (axis.taps - 1) * axis.hop;
  const long long lowest = axis.start + min_of(0, reach), highest = axis.start + max_of(0, reach);
  const long long first = lowest < 0 ? blocks_of(-lowest, axis.pace) : 0;
  const long long end = highest < axis.size ? (axis.size - 1 - highest) / axis.pace + 1 : 0;
  return {min_of(first, axis.count), min_of(end, axis.count)};
}

// Adds `taps` of one row to kPixels pixels. `pixel_step`, `tap_step`, `group_step`: elements of the image;
// `weight_step`: floats from one tap to the next; `vector_step`: from one vector of groups to the next. Of one vector
// `groups` count; several are whole, and lie behind one another.
template <int kPixels, int kVectors>
TS_INLINE void add_taps(Vec (&sums)[kPixels][kVectors], const Stored* image, long long pixel_step, long long tap_step,
                        long long group_step, const float* weights, long long weight_step, long long vector_step,
                        long long taps, int groups) {
  for (long long tap = 0; tap < taps; ++tap, image += tap_step, weights += weight_step) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vec weight = load(weights + v * vector_step);
#pragma GCC unroll 16
      for (int p = 0; p < kPixels; ++p) {
        const Stored* const from = image + p * pixel_step + v * kLanes;
        sums[p][v] = sums[p][v] + weight * (kVectors > 1 ? load_floats<kElement, kLanes>(from)
                                                         : load_stepped(from, group_step, groups));
      }
    }
  }
}

// A line of pixels of a phase, along the innermost axis, for a block of groups.
struct Line {
  const TsConvArgs& args;
  const Phase& phase;
  Pixel pixel;       // of the result, at[2] yet to be set
  long long i0, i1;  // coordinates in the phase of the outer two axes
  Met outer_met, middle_met;
  float* scratch;

  // kPixels pixels from i on, that meet these taps of the innermost axis, for kVectors vectors of groups.
  template <int kPixels, int kVectors>
  TS_INLINE void compute(long long i, Met met, long long group, int groups) {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
    const long long taps = taps_of(args);
    const Stored* const image = static_cast<const Stored*>(kForward ? args.x : args.y) + pixel.member * from.batch +
                                group * from.group +
                                (i * inner.pace + inner.start + met.first * inner.hop) * from.spatial[2];
    const float* const weights = static_cast<const float*>(args.workspace) + group * taps +
                                 (inner.tap_first + met.first * inner.tap_step) * kLanes;
    Vec sums[kPixels][kVectors] = {};
    for (long long t0 = outer_met.first; t0 < outer_met.end; ++t0)
      for (long long t1 = middle_met.first; t1 < middle_met.end; ++t1) {
        const long long row = (i0 * outer.pace + outer.start + t0 * outer.hop) * from.spatial[0] +
                              (i1 * middle.pace + middle.start + t1 * middle.hop) * from.spatial[1];
        const long long tap =
            ((outer.tap_first + t0 * outer.tap_step) * args.filter[1] + middle.tap_first + t1 * middle.tap_step) *
            args.filter[2];
        add_taps<kPixels, kVectors>(sums, image + row, inner.pace * from.spatial[2], inner.hop * from.spatial[2],
                                    from.group, weights + tap * kLanes, inner.tap_step * kLanes, taps * kLanes,
                                    met.end - met.first, groups);
      }
    for (int p = 0; p < kPixels; ++p) {
      for (int v = 0; v < kVectors; ++v) store(scratch + v * kLanes, sums[p][v]);
      Pixel at = pixel;
      at.at[2] = inner.first + (i + p) * inner.step;
      finish_line(args, kForward ? args.y_strides : args.x_strides, args.groups, at, group,
                  kVectors == 1 ? groups : kVectors * kLanes, scratch, scratch + kBlockGroups);
    }
  }

  template <int kVectors>
  void run_vectors(long long group, int groups) {
    constexpr int kTogether = kAccumulators / 2 / kVectors;  // pixels that share the loads of the weights
    const Axis& inner = phase.axis[2];
    const Met all = met_by_all(inner), every_tap = {0, inner.taps};
    for (long long i = 0; i < inner.count;) {
      if (i >= all.first && i + kTogether <= all.end) {
        compute<kTogether, kVectors>(i, every_tap, group, groups);
        i += kTogether;
      } else {
        compute<1, kVectors>(i, met_by(inner, i), group, groups);
        ++i;
      }
    }
  }

  void run(long long group) {
    const long long end = min_of(args.groups, group + kBlockGroups);
    const bool dense = (kForward ? args.x_strides : args.y_strides).group == 1;
    while (group < end) {
      const int left = (int)(end - group);
      if (dense && left >= 4 * kLanes) {
        run_vectors<4>(group, kLanes);
        group += 4 * kLanes;
      } else if (dense && left >= 2 * kLanes) {
        run_vectors<2>(group, kLanes);
        group += 2 * kLanes;
      } else {
        run_vectors<1>(group, (int)min_of(kLanes, left));
        group += kLanes;
      }
    }
  }
};

void run_data(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const long long group = task % grid.blocks * kBlockGroups;
  task /= grid.blocks;
  const Phase phase = phase_of(args, task / grid.runs);
  const long long together = Grid::lines_of_task(phase_of(args, 0));
  const long long lines = phase.rows / phase.axis[2].count;
  const long long first = task % grid.runs * together, end = min_of(lines, first + together);
  for (long long line = first; line < end; ++line) {
    const long long i1 = line % phase.axis[1].count, outer = line / phase.axis[1].count;
    const long long i0 = outer % phase.axis[0].count, member = outer / phase.axis[0].count;
    const Pixel pixel = {
        member, 0, {phase.axis[0].first + i0 * phase.axis[0].step, phase.axis[1].first + i1 * phase.axis[1].step, 0}};
    Line{args, phase, pixel, i0, i1, met_by(phase.axis[0], i0), met_by(phase.axis[1], i1), static_cast<float*>(memory)}
        .run(group);
  }
}
