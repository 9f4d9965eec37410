// Convolution of groups of few channels on AMX tiles, forward and backward data. A task copies the part of the image
// that its pixels meet, sixteen channels behind one another and zeros beside the image, so that a row of a tile is one
// pixel at kPack taps, and the rows below it are the pixels that follow. The weights of sixteen channels are a tile
// too, with zeros where a channel of the image is of another group than that of the result.
//
// Zeros must not meet what is infinite or NaN: where the image has such elements, vectors multiply each group apart.

constexpr int kMostPositions = 512;               // whose sums a task holds
constexpr int kTileRows = 16;                     // positions
constexpr int kStripTiles = 4;                    // that share the loads of the weights
constexpr int kTapRows = kTileRows / kPack;       // of a tile of weights: the words of sixteen channels
constexpr int kTileWords = kTileRows * kLanes;    // of a tile
constexpr int kPixelElements = kTapRows * kPack;  // of a copied pixel
constexpr int kVectorsTogether = kPack;           // whose elements are one vector as they lie

static_assert(kPixelElements == kLanes && kVectorsTogether * kPixelElements == kChunk);

TS_INLINE long long magnitude(long long x) {
  return x < 0 ? -x : x;
}

// From the first to the last of an axis's taps, in pixels of the image; the lowest of them, from the tap 0.
TS_INLINE long long reach_of(const Axis& axis) {
  return max_of(0, axis.taps - 1) * magnitude(axis.hop);
}
TS_INLINE long long lowest_of(const Axis& axis) {
  return axis.hop < 0 ? -reach_of(axis) : 0;
}

// Tasks by phase, line of the outer axis, run of lines, run of pixels in a line and block of channels.
struct Grid {
  long long phases, outer, lines_of_task, pixels_of_task, line_runs, pixel_runs, blocks;
  bool flat;  // lines follow one another in the copy as in the result, with the pixels that their taps reach in between

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)),
        blocks(blocks_of(channels_of(args), kBlockChannels)),
        flat(!kForward || (args.stride[1] == 1 && args.stride[2] == 1)) {
    const Phase first = phase_of(args, 0);  // has as many pixels as any
    const long long lines = first.axis[1].count, pixels = first.axis[2].count;
    outer = args.batch * first.axis[0].count;
    pixel_runs = blocks_of(pixels, kMostPositions);
    pixels_of_task = min_of(pixels, blocks_of(blocks_of(pixels, pixel_runs), kTileRows) * kTileRows);
    const long long pitch = pixels_of_task + most_reach(args, 2);
    const long long most = flat ? (kMostPositions - pixels_of_task) / pitch + 1
                                : kMostPositions / (blocks_of(pixels_of_task, kTileRows) * kTileRows);
    lines_of_task = blocks_of(lines, blocks_of(lines, most));
    while (lines_of_task > 1 && tasks_with(lines) < 4 * args.threads) lines_of_task = blocks_of(lines_of_task, 2);
    line_runs = blocks_of(lines, lines_of_task);
  }

  // No phase's taps reach farther.
  [[nodiscard]] static long long most_reach(const TsConvArgs& args, int d) {
    return (args.filter[d] - 1) * args.dilation[d] / (kForward ? 1 : args.stride[d]);
  }
  [[nodiscard]] long long tasks_with(long long lines) const {
    return phases * outer * blocks_of(lines, lines_of_task) * pixel_runs * blocks;
  }
  // Pixels of a vector's copy at most, with those that a tile reads behind them.
  [[nodiscard]] long long copied(const TsConvArgs& args) const {
    const auto along = [&](int d, long long count) {
      return (count - 1) * (kForward ? args.stride[d] : 1) + most_reach(args, d) + 1;
    };
    return args.filter[0] * along(1, lines_of_task) * along(2, pixels_of_task) + behind(args);
  }
  [[nodiscard]] static long long behind(const TsConvArgs& args) {
    return kTileRows * (kForward ? args.stride[2] : 1) + kPack;
  }
};

// A thread's own memory.
struct Scratch : Arrays {
  float *sums, *weights;  // kBlockChannels of each position; tiles of a vector of channels
  Stored* image;          // of kVectorsTogether vectors

  Scratch(const TsConvArgs& args, const Grid& grid, void* memory) : Arrays(memory) {
    sums = take<float>(kMostPositions * kBlockChannels);
    weights = take<float>(taps_of(args) * kTileWords);
    image = take<Stored>(kVectorsTogether * grid.copied(args) * kPixelElements);
  }
};

long long scratch_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return (long long)Scratch(args, Grid(args), nullptr).end;
}

long long data_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  if (args.batch == 0) return 0;
  const Grid grid(args);
  return grid.tasks_with(phase_of(args, 0).axis[1].count);
}

// The pixels of a task, and the part of the image that they meet.
struct Block {
  const TsConvArgs& args;
  const Phase& phase;
  long long member, i0;  // and the coordinate of the outer axis
  long long first_line, lines, first_pixel, pixels;
  bool flat;
  long long rows, pitch;  // of a plane of the copy; there is one for each tap of the outer axis
  long long together;     // taps of the innermost axis that lie in a tile
  long long steps;        // tiles of a row of taps

  Block(const TsConvArgs& call, const Phase& its, const Grid& grid, long long outer, long long line, long long pixel)
      : args(call),
        phase(its),
        member(outer / its.axis[0].count),
        i0(outer % its.axis[0].count),
        first_line(line),
        lines(min_of(grid.lines_of_task, its.axis[1].count - line)),
        first_pixel(pixel),
        pixels(min_of(grid.pixels_of_task, its.axis[2].count - pixel)),
        flat(grid.flat),
        rows((lines - 1) * its.axis[1].pace + reach_of(its.axis[1]) + 1),
        pitch((pixels - 1) * its.axis[2].pace + reach_of(its.axis[2]) + 1),
        together(magnitude(its.axis[2].hop) == 1 ? kPack : 1),
        steps(its.taps > 0 ? blocks_of(its.axis[2].taps, together) : 0) {}

  [[nodiscard]] long long vector_pixels() const { return phase.axis[0].taps * rows * pitch + Grid::behind(args); }

  // Positions follow one another in a run: of all lines, or of one.
  [[nodiscard]] long long runs() const { return flat ? 1 : lines; }
  [[nodiscard]] long long positions() const { return flat ? (lines - 1) * pitch + pixels : pixels; }
  [[nodiscard]] long long rows_of_sums() const { return blocks_of(positions(), kTileRows) * kTileRows; }
  [[nodiscard]] long long row_of_sums(long long line) const { return line * (flat ? pitch : rows_of_sums()); }

  // Copies the channels from `channel` on, kVectorsTogether vectors of them. Returns whether all are finite.
  [[nodiscard]] bool copy(long long channel, Stored* to) const;
  // The tiles of weights of a vector of channels.
  void arrange(long long channel, float* to) const;
  // Calls add(image, weights, taps) for each tile of weights, of so many taps: what position 0 of the run meets there.
  template <class Add>
  TS_INLINE void for_tiles(const Stored* image, const float* weights, Add add) const {
    const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
    for (long long t0 = 0; t0 < outer.taps; ++t0)
      for (long long t1 = 0; t1 < middle.taps; ++t1) {
        const Stored* const row = image + (t0 * rows + t1 * middle.hop - lowest_of(middle)) * pitch * kPixelElements;
        for (long long s = 0; s < steps; ++s, weights += kTileWords)
          add(row + s * together * magnitude(inner.hop) * kPixelElements, weights,
              min_of(together, inner.taps - s * together));
      }
  }
};

// Pixels of zeros in each of the vectors.
inline void zero_pixels(Stored* to, long long vector, long long count) {
  for (int v = 0; v < kVectorsTogether && count > 0; ++v)
    __builtin_memset(to + v * vector, 0, count * kPixelElements * sizeof(Stored));
}

// A vector of elements, those of kVectorsTogether vectors of channels.
TS_INLINE void put_pixel(Vec x, Stored* to, long long vector) {
  static_assert(kVectorsTogether == 2);
  typedef float Half __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
  *reinterpret_cast<Half*>(to) = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
  *reinterpret_cast<Half*>(to + vector) = __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
}

bool Block::copy(long long channel, Stored* to) const {
  const TsConvStrides& s = kForward ? args.x_strides : args.y_strides;
  const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
  const long long width = width_of(args), vector = vector_pixels() * kPixelElements;
  const int count = (int)min_of(kChunk, channels_of(args) - channel);
  const bool dense = is_even(s, width) && channel_step(s, width) == 1;
  long long places[kChunk];
  for (int e = 0; e < count && !dense; ++e)
    places[e] = channel_place(s, width, channel + e) - channel_place(s, width, channel);
  const Stored* const image =
      static_cast<const Stored*>(kForward ? args.x : args.y) + member * s.batch + channel_place(s, width, channel);
  const long long left = first_pixel * inner.pace + inner.start + lowest_of(inner);
  const long long begin = min_of(pitch, max_of(0, -left)), end = max_of(begin, min_of(pitch, inner.size - left));
  UVec found = {};
  for (long long t0 = 0; t0 < outer.taps; ++t0) {
    const long long at0 = i0 * outer.pace + outer.start + t0 * outer.hop;
    for (long long r = 0; r < rows; ++r, to += pitch * kPixelElements) {
      const long long at1 = first_line * middle.pace + middle.start + lowest_of(middle) + r;
      if (at0 < 0 || at0 >= outer.size || at1 < 0 || at1 >= middle.size) {
        zero_pixels(to, vector, pitch);
        continue;
      }
      zero_pixels(to, vector, begin);
      zero_pixels(to + end * kPixelElements, vector, pitch - end);
      const Stored* from = image + at0 * s.spatial[0] + at1 * s.spatial[1] + (left + begin) * s.spatial[2];
      for (long long p = begin; p < end; ++p, from += s.spatial[2]) {
        Vec x;
        if (dense) {
          x = load_part(from, count);
          __builtin_prefetch(from + kBlockChannels, 0, 2);  // of the next task: pixels are too far apart to be foreseen
        } else {
          Stored some[kChunk] = {};
          for (int e = 0; e < count; ++e) some[e] = from[places[e]];
          x = *reinterpret_cast<const LooseVec*>(some);
        }
        found |= ((UVec)x & 0x7f807f80u) + 0x00800080u;  // an exponent of ones overflows
        put_pixel(x, to + p * kPixelElements, vector);
      }
    }
  }
  zero_pixels(to, vector, Grid::behind(args));
  int lanes[kLanes], any = 0;
  store(lanes, (IVec)(found & 0x80008000u));
  for (const int lane : lanes) any |= lane;
  return any == 0;
}

void Block::arrange(long long channel, float* to) const {
  const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
  const long long width = width_of(args), words = words_of_group(args);
  const float* const packed = weights_of_vector(args, channel);
  IVec own[kTapRows];  // lanes of the group that a word is of
  for (int w = 0; w < kTapRows; ++w) {
    int lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = l / width == w * kPack / width ? -1 : 0;
    own[w] = load(lanes);
  }
  for (long long t0 = 0; t0 < outer.taps; ++t0)
    for (long long t1 = 0; t1 < middle.taps; ++t1) {
      const long long row =
          (outer.tap_first + t0 * outer.tap_step) * args.filter[1] + middle.tap_first + t1 * middle.tap_step;
      for (long long s = 0; s < steps; ++s)
        for (int e = 0; e < kPack; ++e, to += kTapRows * kLanes) {
          const long long t2 = s * together + e;  // from the lowest pixel on
          if (e >= together || t2 >= inner.taps) {
            zero_words(to, kTapRows * kLanes);
            continue;
          }
          const long long tap = inner.tap_first + (inner.hop < 0 ? inner.taps - 1 - t2 : t2) * inner.tap_step;
          const float* const from = packed + (row * args.filter[2] + tap) * words * kLanes;
#pragma GCC unroll 8
          for (int w = 0; w < kTapRows; ++w)
            store(to + w * kLanes, (Vec)((IVec)load(from + w % words * kLanes) & own[w]));
        }
    }
}

// kCount tiles of positions from `image` on.
template <int kCount>
TS_INLINE void multiply_tiles(const Block& block, const Stored* image, const float* weights, float* sums) {
  const long long row = block.phase.axis[2].pace * kPixelElements, row_bytes = row * (long long)sizeof(Stored);
  constexpr long long kSumsBytes = 4 * kBlockChannels;
  tile_zero<0>();
  if constexpr (kCount > 1) tile_zero<1>();
  if constexpr (kCount > 2) tile_zero<2>();
  if constexpr (kCount > 3) tile_zero<3>();
  block.for_tiles(
      image, weights, [&](const Stored* from, const float* at, long long) __attribute__((always_inline)) {
        tile_load<6>(at, 4 * kLanes);
        tile_load<4>(from, row_bytes);
        tile_dot<0, 4, 6>();
        if constexpr (kCount > 1) {
          tile_load<5>(from + kTileRows * row, row_bytes);
          tile_dot<1, 5, 6>();
        }
        if constexpr (kCount > 2) {
          tile_load<4>(from + 2 * kTileRows * row, row_bytes);
          tile_dot<2, 4, 6>();
        }
        if constexpr (kCount > 3) {
          tile_load<5>(from + 3 * kTileRows * row, row_bytes);
          tile_dot<3, 5, 6>();
        }
      });
  tile_store<0>(sums, kSumsBytes);
  if constexpr (kCount > 1) tile_store<1>(sums + kTileRows * kBlockChannels, kSumsBytes);
  if constexpr (kCount > 2) tile_store<2>(sums + 2 * kTileRows * kBlockChannels, kSumsBytes);
  if constexpr (kCount > 3) tile_store<3>(sums + 3 * kTileRows * kBlockChannels, kSumsBytes);
}

inline void multiply_strip(const Block& block, const Stored* image, const float* weights, long long tiles,
                           float* sums) {
  static_assert(kStripTiles == 4);
  if (tiles >= 4) return multiply_tiles<4>(block, image, weights, sums);
  if (tiles == 3) return multiply_tiles<3>(block, image, weights, sums);
  if (tiles == 2) return multiply_tiles<2>(block, image, weights, sums);
  multiply_tiles<1>(block, image, weights, sums);
}

// One position without tiles: an element of the image meets the lanes of its group alone.
inline void multiply_apart(const Block& block, const Stored* image, const float* weights, float* sums) {
  const int width = (int)width_of(block.args);
  int lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = l / width;
  const IVec group = load(lanes);
  Vec sum = {};
  block.for_tiles(image, weights, [&](const Stored* from, const float* at, long long taps) {
    for (int e = 0; e < taps * kPixelElements; ++e) {
      const UVec words = (UVec)load(at + e / kPack * kLanes);
      const Vec weight = (Vec)(e % kPack == 0 ? words << 16 : words & 0xffff0000u);
      const Vec more = sum + weight * (Vec)splat((unsigned)from[e] << 16);
      sum = group == e % kPixelElements / width ? more : sum;
    }
  });
  store(sums, sum);
}

// Sums of a task's pixels, channels first .. end - 1, to the result.
inline void write_sums_of(const Block& block, long long first, long long end, const float* sums) {
  const TsConvArgs& args = block.args;
  const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
  const Axis* const axis = block.phase.axis;
  const ChannelsAsGroups channels(args, 0);
  const int count = (int)(end - first);
  const bool even = writes_evenly(args);
  const bool straight = even && channel_step(strides, width_of(args)) == 1 && args.operations[0] == TS_END;
  for (long long l = 0; l < block.lines; ++l) {
    Pixel at = {block.member,
                0,
                {axis[0].first + block.i0 * axis[0].step, axis[1].first + (block.first_line + l) * axis[1].step, 0}};
    const float* from = sums + block.row_of_sums(l) * kBlockChannels;
    if (!straight || count < kLanes) {
      for (long long i = 0; i < block.pixels; i += kResultLines)
        finish_channels(args, channels, even, block.phase, at, block.first_pixel + i,
                        (int)min_of(kResultLines, block.pixels - i), first, end, from + i * kBlockChannels,
                        kBlockChannels);
      continue;
    }
    at.at[2] = axis[2].first + block.first_pixel * axis[2].step;
    const long long place = place_of(strides, at, first), step = axis[2].step * strides.spatial[2];
    with_result_type(args.out_type, [&]<class T>(T) {
      auto* to = static_cast<typename T::Type*>(args.out) + place;
      for (long long i = 0; i < block.pixels; ++i, to += step, from += kBlockChannels) {
        for (int c = 0; c < count; c += kLanes) {  // the last vector overlaps the one before
          const int some = (int)min_of(c, count - kLanes);
          store_floats<T::kElement, kLanes>(to + some, load(from + some));
        }
        constexpr int kLine = 64 / (int)sizeof(*to);
        for (int c = 0; c < count; c += kLine)  // of the next task
          asm volatile("prefetchw %0" : : "m"(to[kBlockChannels + c]));
      }
    });
  }
}

void run_data(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const Scratch w(args, grid, memory);
  TaskDigits digits{task};
  const long long first = digits.next(grid.blocks) * kBlockChannels,
                  end = min_of(channels_of(args), first + kBlockChannels);
  const long long pixel = digits.next(grid.pixel_runs) * grid.pixels_of_task,
                  line = digits.next(grid.line_runs) * grid.lines_of_task;
  const long long outer = digits.next(grid.outer);
  const Phase phase = phase_of(args, digits.rest);
  if (outer >= args.batch * phase.axis[0].count || line >= phase.axis[1].count || pixel >= phase.axis[2].count) return;
  const Block block(args, phase, grid, outer, line, pixel);
  const long long vector = block.vector_pixels() * kPixelElements;
  const long long positions = block.positions(), row = phase.axis[2].pace * kPixelElements;
  for (long long chunk = first; chunk < end; chunk += kChunk) {
    const bool finite = block.copy(chunk, w.image);
    for (long long channel = chunk; channel < min_of(end, chunk + kChunk); channel += kLanes) {
      block.arrange(channel, w.weights);
      for (long long run = 0; run < block.runs(); ++run) {
        const Stored* const image =
            w.image + (channel - chunk) / kLanes * vector + run * phase.axis[1].pace * block.pitch * kPixelElements;
        float* const sums = w.sums + block.row_of_sums(run) * kBlockChannels + (channel - first);
        if (finite)
          for (long long i = 0; i < positions; i += kStripTiles * kTileRows)
            multiply_strip(block, image + i * row, w.weights, blocks_of(positions - i, kTileRows),
                           sums + i * kBlockChannels);
        else
          for (long long i = 0; i < positions; ++i)
            multiply_apart(block, image + i * row, w.weights, sums + i * kBlockChannels);
      }
    }
  }
  write_sums_of(block, first, end, w.sums);
}
