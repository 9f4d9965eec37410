// Depthwise convolution, forward and backward data: groups of one channel lie along the lanes, so that a tap of a pixel
// is a vector of the image times a vector of weights. A task computes a run of pixels for a block of groups. Only taps
// that meet the image are visited: nothing is multiplied with the border.

constexpr int kBlockVectors = 4;  // of groups in a task
constexpr int kBlockGroups = kBlockVectors * kLanes;
constexpr int kTogether = kAccumulators / kBlockVectors / 2;  // pixels that share the loads of the weights
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

// Adds taps first .. end - 1 of one row to kPixels pixels from pixel i on. `pixel_step`, `tap_step`: elements of the
// image; `weight_step`: floats from one tap to the next; `vector_step`: from one vector of groups to the next.
template <int kPixels, int kVectors>
TS_INLINE void add_taps(Vec (&sums)[kPixels][kVectors], const Stored* image, long long pixel_step, long long tap_step,
                        long long group_step, const float* weights, long long weight_step, long long vector_step,
                        long long taps, int groups) {
  for (long long tap = 0; tap < taps; ++tap, image += tap_step, weights += weight_step) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vec weight = load(weights + v * vector_step);
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) {
        const Stored* const from = image + p * pixel_step + v * kLanes * group_step;
        const Vec x =
            kVectors == kBlockVectors ? load_floats<kElement, kLanes>(from) : load_stepped(from, group_step, groups);
        sums[p][v] = sums[p][v] + x * weight;
      }
    }
  }
}

struct Line {
  const TsConvArgs& args;
  const Phase& phase;
  Pixel pixel;       // of the result, at[2] yet to be set
  long long i0, i1;  // coordinates in the phase of the outer two axes
  long long member, group;
  float* scratch;

  // kPixels pixels from i on, whose taps along the innermost axis are `met`, and kVectors vectors of groups (of one,
  // `groups` of them).
  template <int kPixels, int kVectors>
  void compute(long long i, Met met, int vector, int groups) {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const TsConvStrides& to = kForward ? args.y_strides : args.x_strides;
    const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
    const long long taps = taps_of(args), first_group = group + vector * kLanes;
    const Stored* const image = static_cast<const Stored*>(kForward ? args.x : args.y) + member * from.batch +
                                first_group * from.group +
                                (i * inner.pace + inner.start + met.first * inner.hop) * from.spatial[2];
    const float* const weights = static_cast<const float*>(args.workspace) + first_group * taps +
                                 (inner.tap_first + met.first * inner.tap_step) * kLanes;
    Vec sums[kPixels][kVectors] = {};
    const Met met0 = met_by(outer, i0), met1 = met_by(middle, i1);
    for (long long t0 = met0.first; t0 < met0.end; ++t0)
      for (long long t1 = met1.first; t1 < met1.end; ++t1) {
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
      finish_line(args, to, args.groups, at, first_group, kVectors == 1 ? groups : kVectors * kLanes, scratch,
                  scratch + kBlockGroups);
    }
  }

  template <int kPixels>
  void compute_block(long long i, Met met, bool whole) {
    if (whole) return compute<kPixels, kBlockVectors>(i, met, 0, kLanes);
    const int groups = (int)min_of(kBlockGroups, args.groups - group);
    for (int v = 0; v * kLanes < groups; ++v) compute<kPixels, 1>(i, met, v, (int)min_of(kLanes, groups - v * kLanes));
  }

  void run() {
    const Axis& inner = phase.axis[2];
    const bool whole = group + kBlockGroups <= args.groups && (kForward ? args.x_strides : args.y_strides).group == 1;
    for (long long i = 0; i < inner.count;) {
      const Met met = met_by(inner, i);
      // Neighbours that meet the same taps share the loads of their weights.
      bool together = i + kTogether <= inner.count;
      for (int p = 1; together && p < kTogether; ++p) {
        const Met other = met_by(inner, i + p);
        together = other.first == met.first && other.end == met.end;
      }
      if (together) {
        compute_block<kTogether>(i, met, whole);
        i += kTogether;
      } else {
        compute_block<1>(i++, met, whole);
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
    Line{args, phase, pixel, i0, i1, member, group, static_cast<float*>(memory)}.run();
  }
}
