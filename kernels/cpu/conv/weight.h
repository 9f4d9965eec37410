// Backward weight as a product: (tap, channel of x) by channels of y, over pixels of y. A task computes a run of (tap,
// channel) over a run of pixels, and leaves its sums in the workspace; the runs of pixels are then added in their
// order. How pixels are cut depends on the problem alone, so that the same problem gives the same bits on any threads.

constexpr long long kTasksWanted = 64;   // pixels are cut until there are about so many tasks
constexpr long long kLeastPixels = 512;  // but not into less
constexpr int kPixels = kTileK * kPack;  // of a block
constexpr int kRowsOfReduction = 32;

struct Shape {
  long long rows, columns;  // (tap, channel); channels of y, up to whole vectors
  long long pixels, splits, split_pixels;
  long long row_blocks, column_blocks;

  explicit Shape(const TsConvArgs& args)
      : rows(args.filter[0] * args.filter[1] * args.filter[2] * args.c),
        columns(blocks_of(args.k, kLanes) * kLanes),
        pixels(args.batch * args.y_size[0] * args.y_size[1] * args.y_size[2]),
        row_blocks(blocks_of(rows, kTileM)),
        column_blocks(blocks_of(args.k, kTileN)) {
    const long long tasks = args.groups * row_blocks * column_blocks;
    splits = max_of(1, min_of(blocks_of(kTasksWanted, tasks), pixels / kLeastPixels));
    split_pixels = blocks_of(blocks_of(pixels, splits), kPixels) * kPixels;
    splits = max_of(1, blocks_of(pixels, max_of(split_pixels, 1)));
  }
  [[nodiscard]] long long partial(const TsConvArgs& args, long long split, long long group) const {
    return (split * args.groups + group) * rows * columns;
  }
};

long long workspace_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  return 4 * shape.partial(args, shape.splits, 0);
}

struct Segment {
  long long offset[3];
  long long channel;
  int count, at;
};

struct Scratch {
  float *a, *b, *sums;
  Segment* segments;

  explicit Scratch(void* memory) {
    a = static_cast<float*>(memory);
    b = a + kTileM * kTileK + 2 * kLanes;
    sums = b + kTileN * kTileK;
    segments = reinterpret_cast<Segment*>(sums + kTileM * kTileN);
  }
};

long long scratch_size(const void*) {
  return 4ll * (kTileM * kTileK + 2 * kLanes + kTileN * kTileK + kTileM * kTileN) + kTileM * (long long)sizeof(Segment);
}

long long weight_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  return shape.splits * args.groups * shape.row_blocks * shape.column_blocks;
}

// Rows first .. first + count - 1 by tap.
inline int cut(const TsConvArgs& args, long long first, int count, Segment* segments) {
  int number = 0;
  for (int at = 0; at < count;) {
    const long long tap = (first + at) / args.c, channel = (first + at) % args.c;
    Segment& s = segments[number++];
    s.count = (int)min_of(args.c - channel, count - at);
    s.channel = channel;
    s.at = at;
    long long rest = tap;
    for (int d = 2; d >= 0; --d) {
      s.offset[d] = rest % args.filter[d] * args.dilation[d] - args.pad[d];
      rest /= args.filter[d];
    }
    at += s.count;
  }
  return number;
}

struct Place {
  Pixel pixel;

  Place(const TsConvArgs& args, long long group, long long number) {
    pixel.group = group;
    for (int d = 2; d >= 0; --d) {
      pixel.at[d] = number % args.y_size[d];
      number /= args.y_size[d];
    }
    pixel.member = number;
  }
  void advance(const TsConvArgs& args) {
    for (int d = 2; d >= 0; --d) {
      if (++pixel.at[d] < args.y_size[d]) return;
      pixel.at[d] = 0;
    }
    ++pixel.member;
  }
};

// What the rows read at a pixel.
inline void bring_rows(const Call& args, const Pixel& pixel, const Segment* segments, int count, Stored* to) {
  const TsConvStrides& strides = args.x_strides;
  for (int s = 0; s < count; ++s) {
    const Segment& segment = segments[s];
    Pixel met = pixel;
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      met.at[d] = pixel.at[d] * args.stride[d] + segment.offset[d];
      inside = inside && ((met.at[d] >= 0 && met.at[d] < args.x_size[d]) || (d == 2 && args.folded > 0));
    }
    if (inside && args.folded > 0) {
      const Stored* const from = static_cast<const Stored*>(args.x) + place_of(strides, met, segment.channel);
      const Call::Part part = args.inside(met.at[2], segment.channel, segment.count);
      zero_line(to + segment.at, (int)min_of(part.first, segment.count));
      if (part.first < part.end)
        gather(from + part.first, 1, (int)(part.end - part.first), to + segment.at + part.first);
      const int end = (int)max_of(0, part.end);
      zero_line(to + segment.at + end, segment.count - end);
    } else if (inside)
      gather(static_cast<const Stored*>(args.x) + place_of(strides, met, segment.channel), strides.channel,
             segment.count, to + segment.at);
    else
      zero_line(to + segment.at, segment.count);
  }
}

void run_weight(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  const Shape shape(args);
  Scratch w(memory);
  const long long first_column = task % shape.column_blocks * kTileN;
  task /= shape.column_blocks;
  const long long first_row = task % shape.row_blocks * kTileM;
  task /= shape.row_blocks;
  const long long group = task % args.groups, split = task / args.groups;
  const int rows = (int)min_of(kTileM, shape.rows - first_row), strips = (int)blocks_of(rows, kRows);
  const int columns = (int)min_of(kTileN, args.k - first_column), panels = (int)blocks_of(columns, kPanel);
  const int all_columns = (int)min_of(kTileN, shape.columns - first_column);
  const int segments = cut(args, first_row, rows, w.segments);
  const long long begin = split * shape.split_pixels, end = min_of(shape.pixels, begin + shape.split_pixels);

  zero_words(w.sums, strips * panels * kSumsPerTile);
  Lines x_lines = {}, y_lines = {};
  Place place(args, group, begin);
  for (long long first = begin; first < end; first += kPixels) {
    const int words = words_of((int)min_of(kPixels, end - first));
    for (int i = 0; i < words; ++i) {
      for (int half = 0; half < kPack; ++half) {
        if (first + i * kPack + half >= end) {
          zero_line(x_lines[half], rows);
          zero_line(y_lines[half], columns);
          continue;
        }
        bring_rows(args, place.pixel, w.segments, segments, x_lines[half]);
        gather(static_cast<const Stored*>(args.y) + place_of(args.y_strides, place.pixel, first_column),
               args.y_strides.channel, columns, y_lines[half]);
        place.advance(args);
      }
      lines_to_words(x_lines, strips * kRows, w.a + i * kTileM);
      float line[kTileN];
      lines_to_words(y_lines, all_columns, line);
      for (int c = 0; c < all_columns; c += kLanes) {
        const int panel = c / kPanel * kPanel, width = (int)min_of(kPanel, all_columns - panel);
        store(w.b + panel * kTileK + i * width + c - panel, load(line + c));
      }
    }
    const Run run = {0, words, 0};
    for (int p = 0; p < panels; ++p)
      for (int s = 0; s < strips; ++s)
        multiply_tile(w.a + s * kRows, 1, kTileM, w.b + p * kPanel * kTileK,
                      (int)min_of(kPanel, all_columns - p * kPanel), &run, 1, w.sums + (s * panels + p) * kSumsPerTile,
                      false);
  }

  float* const to = static_cast<float*>(args.workspace) + shape.partial(args, split, group);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < all_columns; c += kLanes)
      store(to + (first_row + r) * shape.columns + first_column + c,
            load(w.sums + (r / kRows * panels + c / kPanel) * kSumsPerTile + r % kRows * kPanel + c % kPanel));
}

long long reduce_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return args.groups * blocks_of(Shape(args).rows, kRowsOfReduction);
}

// Adds the partials in their order and writes the weights: by lines along the channels of x, which are neighbours in
// the usual layouts.
void run_reduce(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const long long blocks = blocks_of(shape.rows, kRowsOfReduction), group = task / blocks;
  const long long first = task % blocks * kRowsOfReduction, end = min_of(shape.rows, first + kRowsOfReduction);
  const TsConvStrides& s = args.w_strides;
  const float* const partials = static_cast<const float*>(args.workspace);
  for (long long row = first; row < end;) {
    const long long channel = row % args.c;
    const int rows = (int)min_of(kLanes, min_of(end - row, args.c - channel));
    long long tap = row / args.c, at = group * s.group + channel * s.channel;
    for (int d = 2; d >= 0; --d) {
      at += tap % args.filter[d] * s.spatial[d];
      tap /= args.filter[d];
    }
    for (long long column = 0; column < args.k; column += kLanes) {
      float sums[kLanes * kLanes] = {}, lines[kLanes * kLanes];
      for (int r = 0; r < rows; ++r) {
        Vec sum = {};
        for (long long split = 0; split < shape.splits; ++split)
          sum = sum + load(partials + shape.partial(args, split, group) + (row + r) * shape.columns + column);
        store(sums + r * kLanes, sum);
      }
      transpose_block(sums, kLanes, lines, kLanes);
      const int columns = (int)min_of(kLanes, args.k - column);
      for (int c = 0; c < columns; ++c)
        write_stepped(args.out_type, lines + c * kLanes, rows, args.out, at + (column + c) * s.batch, s.channel);
    }
    row += rows;
  }
}
