// Forward on AMX where few channels lie between neighbouring taps, as in a network's first layer. A row of the filter
// fills a part of a tile's row, and the rest would be multiplied with zeros; so where fewer tiles hold them, all taps
// of a pixel lie behind one another in one row, which is copied. Results leave a strip's sums panel by panel.

constexpr int kMostJoined = 8;      // tiles that hold the taps of sixteen pixels
constexpr int kJoinedRows = 256;    // pixels of a task
constexpr int kStripRows = 2 * 16;  // that are multiplied together

struct JoinedTaps {
  long long rows, elements, steps;  // of the filter; in each of them; tiles for all

  explicit JoinedTaps(const Call& args)
      : rows(args.filter[0] * args.filter[1]), elements(args.c), steps(blocks_of(rows * elements, kChunk)) {}
  // Depends on nothing that packed weights do not depend on.
  [[nodiscard]] static bool suits(const Call& args) {
    const JoinedTaps taps(args);
    return args.folded > 0 && args.groups == 1 && taps.steps < taps.rows * blocks_of(taps.elements, kChunk) &&
           taps.steps <= kMostJoined;
  }
  [[nodiscard]] PackedWeights weights(const Call& args) const {
    PackedWeights packed(args);
    packed.words = steps * kStep;
    packed.taps = 1;
    return packed;
  }
};

// A thread's own memory.
struct JoinedMemory : Arrays {
  float *words, *sums;  // of a strip
  const float** places;
  void** results;       // where the first channels of a strip's pixels lie
  const Stored** from;  // what the first of some pixels meets of each row of the filter; null beside the image

  JoinedMemory(const JoinedTaps& taps, void* memory) : Arrays(memory) {
    words = take<float>((kStripRows * taps.steps + 2) * kStep);
    sums = take<float>(kStripRows * kPanel + kLanes);
    places = take<const float*>(kStripRows);
    results = take<void*>(kStripRows);
    from = take<const Stored*>(taps.rows);
  }
};

struct JoinedGrid {
  long long rows, panels;
  int rows_of_task = kJoinedRows;

  explicit JoinedGrid(const Call& args)
      : rows(phase_of(args, 0).rows), panels(JoinedTaps(args).weights(args).panels()) {
    while (args.threads > 1 && rows_of_task > kStripRows && tasks(args) < 4 * args.threads) rows_of_task /= 2;
  }
  [[nodiscard]] long long tasks(const TsConvArgs& args) const { return args.groups * blocks_of(rows, rows_of_task); }
};

long long joined_scratch_size(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  if (!JoinedTaps::suits(args)) return scratch_size(args_pointer);
  return (long long)JoinedMemory(JoinedTaps(args), nullptr).end;
}
long long joined_workspace_size(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  return JoinedTaps::suits(args) ? JoinedTaps(args).weights(args).bytes(args) : workspace_size(args_pointer);
}
long long joined_pack_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  return JoinedTaps::suits(args) ? args.groups * JoinedTaps(args).weights(args).panels() : pack_tasks(args_pointer);
}
long long joined_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  if (!JoinedTaps::suits(args)) return data_tasks(args_pointer);
  return args.batch == 0 ? 0 : JoinedGrid(args).tasks(args);
}

// What pixels meet of a row of the filter, on its way to their rows of words.
template <int kBytes>
struct Copier {
  typedef unsigned char Bytes __attribute__((vector_size(kBytes), aligned(1), may_alias));
  unsigned long long mask;

  explicit Copier(long long elements) : mask(mask_of(elements)) {}
  [[nodiscard]] static unsigned long long mask_of(long long elements) {
    return elements <= 0 ? 0 : ~0ull >> (64 - min_of(64, elements * (int)sizeof(Stored)));
  }
  // Of each of `count` pixels so many elements. kBytes bytes are written, with zeros where the next row of the filter
  // will lie; where that would pass the end of the pixel's row of words, no more than there are.
  template <bool kExact>
  TS_INLINE void copy(const Stored* from, long long step, int count, Stored* to, long long row) const {
    for (int p = 0; p < count; ++p, from += step, to += row) {
      const Bytes x = read(from, mask);
      if constexpr (kExact)
        write(x, to);
      else
        *reinterpret_cast<Bytes*>(to) = x;
    }
  }
  // Of one pixel those from `first` to before `end`, and zeros in place of the others.
  TS_INLINE void copy_part(const Stored* from, long long first, long long end, Stored* to) const {
    write(read(from, mask_of(end) & ~mask_of(first)), to);
  }

 private:
  TS_INLINE static Bytes read(const Stored* from, unsigned long long bytes) {
    Bytes x;
    asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(x) : "m"(*reinterpret_cast<const Bytes*>(from)), "Yk"(bytes));
    return x;
  }
  TS_INLINE void write(Bytes x, Stored* to) const {
    asm volatile("vmovdqu8 %1, %0%{%2%}" : "+m"(*reinterpret_cast<Bytes*>(to)) : "v"(x), "Yk"(mask));
  }
};

// A task packs a panel.
void run_joined_pack(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  if (!JoinedTaps::suits(args)) return run_pack(args_pointer, task, memory);
  const JoinedTaps taps(args);
  const PackedWeights packed = taps.weights(args);
  const long long group = task / packed.panels(), panel = task % packed.panels(), column = packed.first(panel);
  const int width = packed.width(panel), columns = (int)min_of(width, args.k - column);
  const ChannelLine line = args.line(args.w_strides);
  constexpr int kBytes = 64;
  const bool dense = line.even && line.step == 1 && taps.elements * (long long)sizeof(Stored) <= kBytes;
  const Copier<kBytes> copier(taps.elements);
  float* const to = static_cast<float*>(args.workspace) + packed.panel(group, column);
  for (int c = 0; c < width; c += kLanes) {
    Stored lines[kLanes][kMostJoined * kChunk] = {};
    for (int l = 0; l < min_of(kLanes, columns - c); ++l)
      for (long long row = 0; row < taps.rows; ++row) {
        const Stored* const from = weights_of(args, group, row, column + c + l);
        Stored* const line_to = lines[l] + row * taps.elements;
        if (dense)
          copier.template copy<true>(from, 0, 1, line_to, 0);
        else
          line.copy(from, 0, (int)taps.elements, line_to);
      }
    for (long long step = 0; step < taps.steps; ++step)
      transpose_block(reinterpret_cast<const float*>(lines[0] + step * kChunk), kMostJoined * kStep,
                      to + step * kStep * width + c, width);
  }
}

struct JoinedRows {
  const Call& args;
  const JoinedTaps& taps;
  const JoinedMemory& w;
  const Phase& phase;
  ChannelLine line = args.line(args.x_strides);

  [[nodiscard]] TS_INLINE Stored* row(int r) const {
    return reinterpret_cast<Stored*>(w.words + r * taps.steps * kStep);
  }

  // `count` pixels of a line of the result, of which the first is `place`, to rows of words from r on.
  void bring(const Place& place, long long group, int count, int r) const {
    const TsConvStrides& s = args.x_strides;
    const Axis& inner = phase.axis[2];
    const Stored* const image = static_cast<const Stored*>(args.x) + place.member * s.batch + group * s.group;
    const long long pixel = place.i[2] * inner.pace + inner.start;
    for (long long number = 0; number < taps.rows; ++number) {
      const long long t[2] = {number / args.filter[1], number % args.filter[1]};
      const Stored* from = image + pixel * s.spatial[2];
      bool met = true;
      for (int d = 0; d < 2; ++d) {
        const Axis& axis = phase.axis[d];
        const long long at = place.i[d] * axis.pace + axis.start + t[d] * axis.hop;
        met = met && at >= 0 && at < axis.size;
        from += at * s.spatial[d];
      }
      w.from[number] = met ? from : nullptr;
    }
    // Pixels all of whose taps lie inside the line, and those beside them.
    const long long last = args.x_size[2] - args.c / args.folded;
    const int first = pixel < 0 ? (int)min_of(count, blocks_of(-pixel, inner.pace)) : 0;
    const int end = last < pixel ? first : (int)max_of(first, min_of(count, (last - pixel) / inner.pace + 1));
    const bool dense = line.even && line.step == 1;
    const long long bytes = taps.elements * (long long)sizeof(Stored);
    if (!dense || bytes > 64) return copy_elements(0, count, pixel, r);
    if (bytes <= 32)
      copy_whole<32>(first, end, r);
    else
      copy_whole<64>(first, end, r);
    copy_parts(0, first, pixel, r);
    copy_parts(end, count, pixel, r);
  }

 private:
  // From what a pixel meets to what the next one does.
  [[nodiscard]] TS_INLINE long long step() const { return phase.axis[2].pace * args.x_strides.spatial[2]; }

  template <int kBytes>
  void copy_whole(int first, int end, int r) const {
    const Copier<kBytes> copier(taps.elements);
    const long long words = taps.steps * kChunk, pace = step();
    for (long long number = 0; number < taps.rows; ++number) {
      Stored* const to = row(r + first) + number * taps.elements;
      const bool met = w.from[number] != nullptr;
      const Stored* const from = met ? w.from[number] + first * pace : reinterpret_cast<const Stored*>(kZeros.words);
      if ((number * taps.elements) * (long long)sizeof(Stored) + kBytes <= words * (long long)sizeof(Stored))
        copier.template copy<false>(from, met ? pace : 0, end - first, to, words);
      else
        copier.template copy<true>(from, met ? pace : 0, end - first, to, words);
    }
  }
  void copy_parts(int first, int end, long long pixel, int r) const {
    const Copier<64> copier(taps.elements);
    for (int p = first; p < end; ++p) {
      const Call::Part part = args.inside(pixel + p * phase.axis[2].pace, 0, taps.elements);
      Stored* to = row(r + p);
      for (long long number = 0; number < taps.rows; ++number, to += taps.elements) {
        const bool met = w.from[number] != nullptr;
        copier.copy_part(met ? w.from[number] + p * step() : nullptr, part.first, met ? part.end : 0, to);
      }
    }
  }
  void copy_elements(int first, int end, long long pixel, int r) const {
    for (int p = first; p < end; ++p) {
      const Call::Part part = args.inside(pixel + p * phase.axis[2].pace, 0, taps.elements);
      Stored* to = row(r + p);
      for (long long number = 0; number < taps.rows; ++number, to += taps.elements) {
        for (long long e = 0; e < taps.elements; ++e) to[e] = Stored{};
        if (w.from[number] != nullptr && part.first < part.end)
          line.copy(w.from[number] + p * step(), part.first, (int)(part.end - part.first), to + part.first);
      }
    }
  }
};

// Of a strip's pixels, those of one line of the result.
struct Piece {
  Pixel pixel;
  int first, end;
};

// Of `count` pixels, sums without an operation behind them as runs of channels from `column` on.
template <Element kType, int kWidth>
inline void write_joined(const JoinedMemory& w, int count, long long column) {
  for (int r = 0; r < count; ++r) {
    auto* const to = static_cast<typename StoredAs<kType>::Type*>(w.results[r]) + column;
#pragma GCC unroll 2
    for (int c = 0; c < kWidth; c += kLanes) store_floats<kType, kLanes>(to + c, load(w.sums + r * kPanel + c));
  }
}
template <int kWidth>
inline bool writes_joined(const TsConvArgs& args, const JoinedMemory& w, int count, long long column) {
  if (args.out_type == TS_BF16) return write_joined<Element::bf16, kWidth>(w, count, column), true;
  if (args.out_type == TS_FP32) return write_joined<Element::fp32, kWidth>(w, count, column), true;
  return false;
}

// Columns of a strip's sums become results: all pixels together where nothing follows, or operations on channels alone.
inline bool finishes_strip(const TsConvArgs& args, const JoinedMemory& w, int count, long long column, int columns) {
  if (args.y_strides.channel != 1) return false;
  if constexpr (kInteger) {
    if (!ByteResults::suit(args, 1)) return false;
    const ByteResults bytes{args};
    for (int r = 0; r < count; r += kResultLines)
      for (int c = 0; c < columns; c += kLanes)
        bytes.finish(reinterpret_cast<const int*>(w.sums) + r * kPanel + c, kPanel,
                     (int)min_of(kResultLines, count - r), column + c, (int)min_of(kLanes, columns - c),
                     reinterpret_cast<signed char**>(w.results) + r, column + c);
    return true;
  } else {
    if (args.operations[0] != TS_END) return false;
    return columns == 2 * kLanes ? writes_joined<2 * kLanes>(args, w, count, column)
                                 : columns == kLanes && writes_joined<kLanes>(args, w, count, column);
  }
}

inline void finish_piece(const TsConvArgs& args, const Piece& piece, long long column, int columns, const float* sums) {
  for (int r = piece.first; r < piece.end; r += kResultLines) {
    ResultLines lines;
    lines.count = (int)min_of(kResultLines, piece.end - r);
    for (int i = 0; i < lines.count; ++i) {
      lines.pixel[i] = piece.pixel;
      lines.pixel[i].at[2] += r - piece.first + i;
    }
    finish_lines(args, args.y_strides, args.k, lines, column, columns, sums + r * kPanel, kPanel, [](Vec sum, int) {
      if constexpr (kInteger) return __builtin_convertvector((IVec)sum, Vec);
      return sum;
    });
  }
}

void run_joined(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  if (!JoinedTaps::suits(args)) return run_data(args_pointer, task, memory);
  const JoinedTaps taps(args);
  const JoinedMemory w(taps, memory);
  const JoinedGrid grid(args);
  const PackedWeights packed = taps.weights(args);
  const Phase phase = phase_of(args, 0);
  const JoinedRows rows{args, taps, w, phase};
  const long long blocks = blocks_of(grid.rows, grid.rows_of_task), group = task / blocks;
  const long long begin = task % blocks * grid.rows_of_task, end = min_of(grid.rows, begin + grid.rows_of_task);
  // What fills rows of words up, and rows that no pixel has, is multiplied, too.
  zero_words(w.words, (int)((kStripRows * taps.steps + 1) * kStep));
  for (int r = 0; r < kStripRows; ++r) w.places[r] = w.words + r * taps.steps * kStep;
  const Run<PlacedRows> run = {{w.places, 0}, (int)(taps.steps * kStep), 0};
  const long long bytes = args.out_type == TS_FP32 ? 4 : args.out_type == TS_INT8 ? 1 : 2;
  Place place(phase, begin);
  for (long long first = begin; first < end; first += kStripRows) {
    const int count = (int)min_of(kStripRows, end - first);
    Piece pieces[kStripRows];
    int number = 0;
    for (int r = 0; r < count; ++number) {
      const int some = (int)min_of(count - r, phase.axis[2].count - place.i[2]);
      pieces[number] = {pixel_of(phase, place, group), r, r + some};
      const long long first_result = place_of(args.y_strides, pieces[number].pixel, 0);
      for (int p = 0; p < some; ++p)
        w.results[r + p] = static_cast<char*>(args.out) + (first_result + p * args.y_strides.spatial[2]) * bytes;
      rows.bring(place, group, some, r);
      place.advance(phase, some);
      r += some;
    }
    for (long long panel = 0; panel < packed.panels(); ++panel) {
      const long long column = packed.first(panel);
      const int width = packed.width(panel);
      multiply_tile(&run, 1, 0, count, static_cast<const float*>(args.workspace) + packed.panel(group, column), width,
                    w.sums, kPanel, true);
      const int columns = (int)min_of(width, args.k - column);
      if (finishes_strip(args, w, count, column, columns)) continue;
      for (int i = 0; i < number; ++i) finish_piece(args, pieces[i], column, columns, w.sums);
    }
  }
}
