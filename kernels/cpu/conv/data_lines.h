// Backward data of few channels, as in a network's first layer, whose pixels would fill a small part of a vector: the
// product of pixels of y and a row of the filter, all taps and channels, is a line of sums for each pixel of y. Lines
// of neighbours overlap in x, where they are added up. A task computes a run of pixels of one line of x; pixels of y at
// its ends meet two tasks.

// A line of x in parts.
struct LineParts {
  long long pixels, count;  // of x in a part; parts
  int columns;              // a row of sums

  explicit LineParts(const Call& args) : columns((int)PackedWeights(args).panels() * kPanel) {
    const long long taps = args.c / args.overlapped, stride = args.stride[2];
    const long long rows = min_of(kFewRows, kTileM * kTileN / columns) / kRows * kRows;
    const long long most = max_of(1, min_of(kMostPixels, (rows - blocks_of(taps, stride) - 1) * stride));
    count = blocks_of(args.x_size[2], most);
    pixels = blocks_of(args.x_size[2], max_of(1, count));
  }
};

template <class AnyCall>
long long line_tasks(const AnyCall& args) {
  return args.groups * args.batch * args.x_size[0] * args.x_size[1] * LineParts(args).count;
}

// Adds the first `count` of a line of sums.
TS_INLINE void add_line(const float* sums, int count, float* to) {
  constexpr IVec kNumbers = TS_LANE_NUMBERS;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(to + i) + load(sums + i));
  if (i < count) store(to + i, load(to + i) + select(kNumbers < count - i, load(sums + i), Vec{}));
}

// Writes pixels first .. first + count - 1 of a line of x.
inline void finish_line(const Call& args, Pixel pixel, long long first, int count, const float* sums) {
  const TsConvStrides& s = args.x_strides;
  const int channels = (int)args.overlapped;
  pixel.at[2] = first;
  if (args.operations[0] == TS_END && s.channel == 1 && s.spatial[2] == channels)
    return write_line(args.out_type, sums, count * channels, args.out, place_of(s, pixel, 0));
  for (int i = 0; i < count; i += kResultLines) {
    ResultLines lines;
    lines.count = (int)min_of(kResultLines, count - i);
    for (int r = 0; r < lines.count; ++r) {
      lines.pixel[r] = pixel;
      lines.pixel[r].at[2] += i + r;
    }
    finish_lines(args, s, channels, lines, 0, channels, sums + i * channels, channels,
                 [](Vec sum, int) { return sum; });
  }
}

template <class AnyCall>
void run_line(const AnyCall& args, long long task, const Scratch& w) {
  const LineParts parts(args);
  const PackedWeights packed(args);
  const long long stride = args.stride[2], channels = args.overlapped, taps = args.c / channels;
  const long long first = task % parts.count * parts.pixels;
  const int pixels = (int)min_of(parts.pixels, args.x_size[2] - first);
  long long rest = task / parts.count, phases[2];
  Pixel pixel = {};
  for (int d = 1; d >= 0; --d) {
    pixel.at[d] = rest % args.x_size[d];
    rest /= args.x_size[d];
    phases[d] = phases_of(args, d);
  }
  pixel.member = rest % args.batch;
  pixel.group = rest / args.batch;

  // The phase of the outer coordinates; along the line the image's pixels are the rows.
  Phase phase;
  long long line = pixel.member;
  for (int d = 0; d < 2; ++d) {
    phase.axis[d] = axis_of(args, d, pixel.at[d] % phases[d]);
    line = line * phase.axis[d].count + pixel.at[d] / phases[d];
  }
  phase.axis[2] = {0, 1, args.y_size[2], 1, 0, 0, args.y_size[2], 0, 1, 1};
  phase.taps = phase.axis[0].taps * phase.axis[1].taps;
  phase.rows = args.batch * phase.axis[0].count * phase.axis[1].count * args.y_size[2];
  const long long begin = max_of(0, blocks_of(first + args.pad[2] - taps + 1, stride));
  const long long end = min_of(args.y_size[2], (first + pixels - 1 + args.pad[2]) / stride + 1);
  const long long words = phase.taps * packed.words;
  const int rows = words > 0 && end > begin ? (int)(end - begin) : 0;

  // From the first pixel that is written, or that a row meets, to the last.
  const long long left = min_of(first, begin * stride - args.pad[2]);
  const long long met = rows > 0 ? (end - 1) * stride - args.pad[2] + taps : 0, right = max_of(first + pixels, met);
  float* const sums_of_line = w.line;
  zero_words(sums_of_line, (int)((right - left) * channels) + 2 * kLanes);

  if (rows > 0) {
    find_rows(args, phase, pixel.group, line * args.y_size[2] + begin, rows, *w.places);
    const ImageRows image_rows(args, phase, packed.words, *w.places, rows, w.raised);
    const Strips strips(rows);
    for (long long at = 0; at < words; at += kTileK) {
      const int count = (int)min_of(kTileK, words - at);
      const int segments = cut(args, phase, packed.words, at, count, w.segments);
      const int runs = place_block(image_rows, packed, rows, segments, count, false, w);
      for (int s = 0; s < strips.count; ++s)
        for (long long panel = 0; panel < packed.panels(); ++panel) {
          const long long column = packed.first(panel);
          const int row = strips.first(s);
          multiply_tile(w.runs, runs, row, strips.first(s + 1) - row,
                        static_cast<const float*>(args.workspace) + packed.panel(pixel.group, column),
                        packed.width(panel), w.sums + row * parts.columns + column, parts.columns, at == 0);
        }
    }
    // Lines that overlap are not added one after the other: each would wait for the one before to be stored.
    const long long apart = stride * channels, turns = min_of(rows, blocks_of(parts.columns, apart));
    float* const to = sums_of_line + (begin * stride - args.pad[2] - left) * channels;
    for (long long turn = 0; turn < turns; ++turn)
      for (long long r = turn; r < rows; r += turns) add_line(w.sums + r * parts.columns, (int)args.c, to + r * apart);
  }
  finish_line(args, pixel, first, pixels, sums_of_line + (first - left) * channels);
}
