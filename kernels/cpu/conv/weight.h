// Backward weight as a product: (tap, channel of x) by channels of y, over pixels of y. A task computes a run of (tap,
// channel) over a run of pixels. Where there are several runs it leaves its sums in the workspace, and they are then
// added in their order. How pixels are cut depends on the problem alone, so that the same problem gives the same bits
// on any threads.

constexpr long long kTasksWanted = 64;   // pixels are cut until there are about so many tasks
constexpr long long kLeastPixels = 512;  // but not into less
constexpr int kPixels = kTileK * kPack;  // of a block
constexpr int kRowsOfReduction = 32;

struct Shape {
  long long rows, columns;  // (tap, channel); channels of y, up to whole vectors
  long long pixels, splits, split_pixels;
  long long block_rows, row_blocks, column_blocks, block_columns;

  explicit Shape(const Call& args)
      : rows(args.filter[0] * args.filter[1] * args.filter[2] * args.c),
        columns(blocks_of(args.k, kLanes) * kLanes),
        pixels(args.batch * args.y_size[0] * args.y_size[1] * args.y_size[2]),
        block_rows(args.folded > 0 && args.c <= kTileM ? kTileM / args.c * args.c : kTileM),  // whole lines
        row_blocks(blocks_of(rows, block_rows)),
        column_blocks(blocks_of(args.k, kTileN)),
        block_columns(round_up((int)blocks_of(args.k, column_blocks), kPanel)) {
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
  const Call args(arguments(args_pointer));
  const Shape shape(args);
  return shape.splits == 1 ? 0 : 4 * shape.partial(args, shape.splits, 0);
}

struct Segment {
  long long offset[3];
  long long place;  // of its channels from a pixel of x that the first tap meets without padding
  long long channel;
  int count, at;
};

// x is read as it lies where its elements are the words, and rows of a tap fill strips.
constexpr bool kReadsImage = kWordsAreStored && kPack == 1;
constexpr int kMaxSegmentsInPlace = kTileM / kRows + 1;
constexpr int kPlaces = kTileK + kScatteredAhead;  // of a segment
alignas(64) constexpr float kZeroRow[kTileM] = {};

// The pixels of a block: where y has them, and what they meet of x at a tap without offset.
struct Pixels {
  long long at[3][kPixels];
  const Stored *x[kPixels], *y[kPixels];
  int lines, line[kPixels + 1];  // how many lines they are of; the first pixel of each, and the end

  // Where the rows of a segment are, for each pixel. Of folded taps, lines that begin or end beside the image are
  // copied, a pixel's to its part of `copies`.
  void find(const Call& args, const Segment& segment, const float** to, float* copies) const {
    const auto outside = [&](int d, int i) {
      return (unsigned long long)(at[d][i] + segment.offset[d]) >= (unsigned long long)args.x_size[d];
    };
    const int count = line[lines];
    for (int l = 0; l < lines; ++l) {
      const int begin = line[l], end = line[l + 1];
      if (outside(0, begin) || outside(1, begin)) {
        for (int i = begin; i < end; ++i) to[i] = kZeroRow;
      } else if (args.folded > 0) {
        for (int i = begin; i < end; ++i) to[i] = reinterpret_cast<const float*>(x[i] + segment.place);
        const auto is_copied = [&](int i) {
          const Call::Part part = args.inside(at[2][i] + segment.offset[2], segment.channel, segment.count);
          const bool whole = part.first == 0 && part.end == segment.count;
          if (!whole) to[i] = copy(to[i], part, segment, copies, i);
          return !whole;
        };
        int first = begin, last = end - 1;
        while (first < end && is_copied(first)) ++first;
        while (last > first && is_copied(last)) --last;
      } else {
        for (int i = begin; i < end; ++i)
          to[i] = outside(2, i) ? kZeroRow : reinterpret_cast<const float*>(x[i] + segment.place);
      }
    }
    for (int i = count; i < count + kScatteredAhead; ++i) to[i] = kZeroRow;
  }

 private:
  static const float* copy(const float* from, Call::Part part, const Segment& segment, float* copies, int pixel) {
    Stored* const to = reinterpret_cast<Stored*>(copies) + pixel * kTileM + segment.at;
    zero_line(to, segment.count);
    for (long long e = part.first; e < part.end; ++e) to[e] = reinterpret_cast<const Stored*>(from)[e];
    return reinterpret_cast<const float*>(to);
  }
};

// A thread's own memory.
struct Scratch : Arrays {
  float *a, *b, *sums;
  float* tiles;  // AMX: a's rows as lines of words
  Segment* segments;
  Pixels* pixels;
  const float** table;      // where the words of a segment's rows begin, for each pixel
  const float** tile_rows;  // where rows of tiles begin

  explicit Scratch(void* memory) : Arrays(memory) {
    a = take<float>(kTileM * kTileK + 2 * kLanes);
    b = take<float>(kTileN * kTileK);
    sums = take<float>(kTileM * kTileN);
    tiles = take<float>(kTiles ? (kTileM + kLanes) * kRowWords : 0);
    segments = take<Segment>(kTileM);
    pixels = take<Pixels>(1);
    table = take<const float*>(kReadsImage ? kMaxSegmentsInPlace * kPlaces : kPixels + kScatteredAhead);
    tile_rows = take<const float*>(kTiles ? kTileM : 0);
  }
};

long long scratch_size(const void*) {
  return (long long)Scratch(nullptr).end;
}

long long weight_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
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
    s.place = s.channel * args.x_strides.channel;
    long long rest = tap;
    for (int d = 2; d >= 0; --d) {
      s.offset[d] = rest % args.filter[d] * args.dilation[d] - args.pad[d];
      s.place += s.offset[d] * args.x_strides.spatial[d];
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
  void advance(const TsConvArgs& args, long long pixels = 1) {
    pixel.at[2] += pixels;  // at most to the end of the row
    for (int d = 2; pixel.at[d] == args.y_size[d]; --d) {
      pixel.at[d] = 0;
      if (d == 0) {
        ++pixel.member;
        return;
      }
      ++pixel.at[d - 1];
    }
  }
};

// The next pixels, a row at a time.
inline void put_pixels(const TsConvArgs& args, Place& place, int count, Pixels& to) {
  const TsConvStrides &xs = args.x_strides, &ys = args.y_strides;
  to.lines = 0;
  for (int i = 0; i < count;) {
    const Pixel& pixel = place.pixel;
    const int run = (int)min_of(count - i, args.y_size[2] - pixel.at[2]);
    to.line[to.lines++] = i;
    const Stored* x = static_cast<const Stored*>(args.x) + pixel.member * xs.batch + pixel.group * xs.group;
    long long at[3];
    for (int d = 0; d < 3; ++d) {
      at[d] = pixel.at[d] * args.stride[d];
      x += at[d] * xs.spatial[d];
    }
    const Stored* const y = static_cast<const Stored*>(args.y) + place_of(ys, pixel, 0);
    for (int j = 0; j < run; ++j) {
      to.at[0][i + j] = at[0];
      to.at[1][i + j] = at[1];
      to.at[2][i + j] = at[2] + j * args.stride[2];
      to.x[i + j] = x + j * args.stride[2] * xs.spatial[2];
      to.y[i + j] = y + j * ys.spatial[2];
    }
    i += run;
    place.advance(args, run);
  }
  to.line[to.lines] = count;
}

// `count` elements on their way to words across lines: words of one element are made at once.
TS_INLINE void gather_line(const Stored* from, long long step, int count, Lines& lines, int half, int at,
                           float* words) {
  if constexpr (kPack == 1)
    line_to_words(from, step, count, words + at);
  else
    gather(from, step, count, lines[half] + at);
}
TS_INLINE void empty_line(int count, Lines& lines, int half, int at, float* words) {
  if constexpr (kPack == 1)
    zero_words(words + at, count);
  else
    zero_line(lines[half] + at, count);
}

// What the rows read at a pixel.
inline void bring_rows(const Call& args, const Pixel& pixel, const Segment* segments, int count, Lines& lines, int half,
                       float* words) {
  const TsConvStrides& strides = args.x_strides;
  const long long base = pixel.member * strides.batch + pixel.group * strides.group;
  for (int s = 0; s < count; ++s) {
    const Segment& segment = segments[s];
    long long met[3], place = base;
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      met[d] = pixel.at[d] * args.stride[d] + segment.offset[d];
      place += met[d] * strides.spatial[d];
      inside = inside && ((met[d] >= 0 && met[d] < args.x_size[d]) || (d == 2 && args.folded > 0));
    }
    const Stored* const from = static_cast<const Stored*>(args.x) + place + segment.channel * strides.channel;
    if (inside && args.folded > 0) {
      const Call::Part part = args.inside(met[2], segment.channel, segment.count);
      const int first = (int)min_of(part.first, segment.count), end = (int)max_of(first, part.end);
      empty_line(first, lines, half, segment.at, words);
      if (first < end) gather_line(from + first, 1, end - first, lines, half, segment.at + first, words);
      empty_line(segment.count - end, lines, half, segment.at + end, words);
    } else if (inside) {
      gather_line(from, strides.channel, segment.count, lines, half, segment.at, words);
    } else {
      empty_line(segment.count, lines, half, segment.at, words);
    }
  }
}

// Where the columns of word i of a panel are in a block of y: whole panels lie kTileK words behind one another.
TS_INLINE float* place_in_panel(const Panels& panels, int panel, float* b, int i) {
  return b + panels.first(panel) * kTileK + i * panels.width(panel);
}

// Whether the weights are written past the caches, as GEMM's D: when they would not stay in the threads' second-level
// caches, and come by whole lines. Of 2 MiB and more, each line would first be read, which takes longer than the
// products where pixels are few.
TS_INLINE bool streams(const TsConvArgs& args) {
  constexpr long long kCacheBytes = 1 << 20, kLine = 16;
  const TsConvStrides& s = args.w_strides;
  long long places = (long long)args.out / 4 | s.batch | s.group | args.c;
  for (int d = 0; d < 3; ++d) places |= args.filter[d] > 1 ? s.spatial[d] : 0;
  return args.out_type == TS_FP32 && s.channel == 1 && (long long)args.out % 64 == 0 && places % kLine == 0 &&
         4 * args.groups * args.k * args.c * taps_of(args) >= kCacheBytes * args.threads;
}

// Writes weights of rows first .. first + count - 1 of a group: by lines along the channels of x, which are neighbours
// in the usual layouts. sums(row, column) are those of a vector of columns.
template <class Sums>
inline void write_weights(const TsConvArgs& args, long long group, long long first, int count, long long first_column,
                          int columns, Sums sums) {
  const TsConvStrides& s = args.w_strides;
  const bool streamed = streams(args);
  for (int column = 0; column < columns; column += kLanes) {
    for (int row = 0; row < count;) {
      const long long channel = (first + row) % args.c;
      const int rows = (int)min_of(kLanes, min_of(count - row, args.c - channel));
      long long tap = (first + row) / args.c, at = group * s.group + channel * s.channel;
      for (int d = 2; d >= 0; --d) {
        at += tap % args.filter[d] * s.spatial[d];
        tap /= args.filter[d];
      }
      float block[kLanes * kLanes], turned[kLanes * kLanes];
      for (int r = 0; r < kLanes; ++r) store(block + r * kLanes, r < rows ? sums(row + r, column) : Vec{});
      transpose_block(block, kLanes, turned, kLanes);
      const int some = (int)min_of(kLanes, columns - column);
      for (int c = 0; c < some; ++c) {
        const long long place = at + (first_column + column + c) * s.batch;
        if (streamed && rows == kLanes)
          asm volatile("vmovntps %1, %0"
                       : "=m"(*reinterpret_cast<Vec*>(static_cast<float*>(args.out) + place))
                       : "v"(load(turned + c * kLanes)));
        else
          write_stepped(args.out_type, turned + c * kLanes, rows, args.out, place, s.channel);
      }
      row += rows;
    }
  }
}

// AMX: the rows of a segment as lines of words, of pixels 2i and 2i + 1 each, from what they meet. What fills the last
// vector of them is overwritten by the next segment's.
template <class V = Vec>
inline void turn_rows(const float* const* met, int words, const Segment& segment, float* tiles) {
  const auto* const from = reinterpret_cast<const Stored* const*>(met);
  for (int i = 0; i < words; i += kLanes)
    for (int r = 0; r < segment.count; r += kLanes) {
      V row[kLanes];
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j)
        row[j] = part_of_pairs<V>(from[2 * (i + j)] + r, from[2 * (i + j) + 1] + r, segment.count - r);
      transpose(row);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) store(tiles + (segment.at + r + j) * kRowWords + i, row[j]);
    }
}

// Pairs of `count` pixels of y, and zeros up to `words`, as panels of whole vectors of columns, of which there are
// `columns`.
template <class V = Vec>
inline void pack_pairs(const Stored* const* y, int count, int words, long long first_column, int columns,
                       const Panels& panels, float* b) {
  alignas(64) static constexpr Stored kNothing[kTileN] = {};
  for (int p = 0; p < panels.count(); ++p)
    for (int i = 0; i < words; ++i) {
      float* const to = place_in_panel(panels, p, b, i);
      for (long long c = panels.first(p); c < panels.first(p + 1); c += kLanes) {
        const auto line = [&](int pixel) { return (pixel < count ? y[pixel] + first_column : kNothing) + c; };
        store(to + c - panels.first(p), part_of_pairs<V>(line(2 * i), line(2 * i + 1), columns - c));
      }
    }
}

void run_weight(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& given = arguments(args_pointer);
  const Call args(given);
  const Shape shape(args);
  Scratch w(memory);
  const long long first_column = task % shape.column_blocks * shape.block_columns;
  task /= shape.column_blocks;
  const long long first_row = task % shape.row_blocks * shape.block_rows;
  task /= shape.row_blocks;
  const long long group = task % args.groups, split = task / args.groups;
  const int rows = (int)min_of(shape.block_rows, shape.rows - first_row);
  const int columns = (int)min_of(shape.block_columns, args.k - first_column);
  const Panels panels{min_of(shape.block_columns, shape.columns - first_column)};
  const int segments = cut(args, first_row, rows, w.segments);
  const bool in_place = kReadsImage && args.x_strides.channel == 1 && args.c >= kRows &&
                        (args.c % kLeastRows == 0 || (args.folded > 0 && args.c <= kTileM));
  const long long begin = split * shape.split_pixels, end = min_of(shape.pixels, begin + shape.split_pixels);

  if (begin >= end) zero_words(w.sums, kTileM * kTileN);
  for (int r = 0; kTiles && r < kTileM; ++r) w.tile_rows[r] = w.tiles + r * kRowWords;
  // AMX: vectors of channels are read from x, and of y, where they lie.
  const bool together = kTiles && args.x_strides.channel == 1 && args.y_strides.channel == 1;
  Lines x_lines = {}, y_lines = {};
  Place place(args, group, begin);
  for (long long first = begin; first < end; first += kPixels) {
    const int words = round_up(words_of((int)min_of(kPixels, end - first)), kStep);
    const Place start = place;
    if constexpr (kPack == 1) {
      put_pixels(args, place, words, *w.pixels);
      for (int p = 0; p < panels.count(); ++p) {
        const int some = (int)min_of(columns - panels.first(p), panels.width(p));
        const long long at = (first_column + panels.first(p)) * args.y_strides.channel;
        for (int i = 0; i < words; ++i)
          line_to_words(w.pixels->y[i] + at, args.y_strides.channel, some, place_in_panel(panels, p, w.b, i));
      }
    }
    bool turned = false;
    if constexpr (kTiles) {
      turned = together;
      const int pixels = (int)min_of(kPixels, end - first);
      if (turned) {
        put_pixels(args, place, pixels, *w.pixels);
        pack_pairs(w.pixels->y, pixels, words, first_column, columns, panels, w.b);
        for (int p = pixels; p < kPack * words; ++p) w.table[p] = kZeroRow;
      }
      for (int s = 0; turned && s < segments; ++s) {
        w.pixels->find(args, w.segments[s], w.table, w.a);
        turn_rows(w.table, words, w.segments[s], w.tiles);
      }
    }
    if (!turned && !in_place) {
      Place at = start;
      for (int i = 0; i < words; ++i) {
        float* const a = w.a + i * kTileM;
        for (int half = 0; half < kPack; ++half) {
          if (first + i * kPack + half >= end) {
            empty_line(rows, x_lines, half, 0, a);
            zero_line(y_lines[half], columns);
            continue;
          }
          bring_rows(args, at.pixel, w.segments, segments, x_lines, half, a);
          for (int r = rows; kPack == 1 && r < round_up(rows, kRows); ++r) a[r] = 0;
          if constexpr (kPack > 1)
            gather(static_cast<const Stored*>(args.y) + place_of(args.y_strides, at.pixel, first_column),
                   args.y_strides.channel, columns, y_lines[half]);
          at.advance(args);
        }
        if constexpr (kPack > 1) {
          float line[kTileN + kLanes];
          lines_to_words(x_lines, round_up(rows, kRows), a);
          lines_to_words(y_lines, (int)panels.columns, line);
          for (int p = 0; p < panels.count(); ++p)
            for (long long c = panels.first(p); c < panels.first(p + 1); c += kLanes)
              store(place_in_panel(panels, p, w.b, i) + c - panels.first(p), load(line + c));
        }
      }
      place = at;
    }
    const auto multiply_panels = [&](const auto& run, int first_row, int count, float* sums) {
      const Strips strips(count);
      for (int s = 0; s < strips.count; ++s)
        for (int p = 0; p < panels.count(); ++p) {
          const int row = strips.first(s), some = strips.first(s + 1) - row;
          multiply_tile(&run, 1, first_row + row, some, place_in_panel(panels, p, w.b, 0), panels.width(p),
                        sums + row * kTileN + panels.first(p), kTileN, first == begin);
        }
    };
    if (in_place) {
      for (int s = 0; s < segments; ++s) {
        const float** const table = w.table + s * kPlaces;
        w.pixels->find(args, w.segments[s], table, w.a);
        multiply_panels(Run<ScatteredRows>{{table}, words, 0}, 0, w.segments[s].count,
                        w.sums + w.segments[s].at * kTileN);
      }
    } else if constexpr (kTiles) {
      for (int r = 0; !together && r < round_up(rows, kRows); r += kLanes)
        for (int i = 0; i < words; i += kLanes)
          transpose_block(w.a + i * kTileM + r, kTileM, w.tiles + r * kRowWords + i, kRowWords);
      multiply_panels(Run<PlacedRows>{{w.tile_rows, 0}, words, 0}, 0, rows, w.sums);
    } else {
      multiply_panels(Run<TurnedRows>{{w.a, kTileM}, words, 0}, 0, rows, w.sums);
    }
  }

  if (shape.splits == 1)
    return write_weights(given, group, first_row, rows, first_column, columns,
                         [&](int row, int column) { return load(w.sums + row * kTileN + column); });
  float* const to = static_cast<float*>(args.workspace) + shape.partial(args, split, group);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < panels.columns; c += kLanes)
      store(to + (first_row + r) * shape.columns + first_column + c, load(w.sums + r * kTileN + c));
}

long long reduce_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  const Shape shape(args);
  return shape.splits == 1 ? 0 : args.groups * blocks_of(shape.rows, kRowsOfReduction);
}

// Adds the partials in their order.
void run_reduce(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape{Call(args)};
  const long long blocks = blocks_of(shape.rows, kRowsOfReduction), group = task / blocks;
  const long long first = task % blocks * kRowsOfReduction;
  const float* const partials = static_cast<const float*>(args.workspace);
  write_weights(
      args, group, first, (int)min_of(kRowsOfReduction, shape.rows - first), 0, (int)args.k, [&](int row, int column) {
        Vec sum = {};
        for (long long split = 0; split < shape.splits; ++split)
          sum = sum + load(partials + shape.partial(args, split, group) + (first + row) * shape.columns + column);
        return sum;
      });
}
