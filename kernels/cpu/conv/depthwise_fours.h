// Depthwise convolution of int8 in fours (vpdpbusd), forward. A word is what four rows of the image have at one pixel
// of a channel, so one instruction multiplies four rows of a column of taps. Where the filter leaves room in the last
// word, two lines of pixels that meet neighbouring rows go together: both multiply the same words, the second by
// weights that begin one row later. Rows beside the image have no weights, pixels beside it are zeros.

constexpr int kMostLines = 2;

// Four rows of the image.
struct FourRows {
  const Stored* row[4];
};

// A thread's memory.
struct FoursMemory {
  float *sums, *weights;  // as other depthwise kernels have; of lines that meet rows beside the image
  FourRows* rows;         // of each word
  unsigned* inside;       // its bytes whose rows lie inside the image
  unsigned long long end;

  FoursMemory(const FoursOfRows& fours, void* memory) {
    Arrays arrays(memory);
    sums = arrays.take<float>(kSums);
    weights = arrays.take<float>(kMostLines * fours.vectors() * kBlockChannels);
    rows = arrays.take<FourRows>(fours.words);
    inside = arrays.take<unsigned>(fours.words);
    end = arrays.end;
  }
};

long long fours_scratch_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return has_fours_of_rows(args) ? (long long)FoursMemory(FoursOfRows(args), nullptr).end : scratch_size(args_pointer);
}

// What four rows have, a row in each quarter, as words: lane l holds channel l of all.
struct TurnQuarters {
  IVec words = load(kTurned.words), bytes = *reinterpret_cast<const LooseIVec*>(kTurned.bytes);

  TS_INLINE Vec operator()(Vec quarters) const {
    Vec x = permuted(quarters, words);
    asm("vpshufb %1, %0, %0" : "+v"(x) : "v"(bytes));
    return raised<true>(x);
  }
};

struct WholeQuarters {  // sixteen channels behind one another
  TurnQuarters turn;

  TS_INLINE Vec operator()(const FourRows& four, long long at) const {
    const auto quarter = [&](int r) -> const Quarter& { return *reinterpret_cast<const Quarter*>(four.row[r] + at); };
    Vec x;
    asm("vmovdqu32 %1, %x0" : "=v"(x) : "m"(quarter(0)));
    asm("vinserti32x4 $1, %1, %0, %0" : "+v"(x) : "m"(quarter(1)));
    asm("vinserti32x4 $2, %1, %0, %0" : "+v"(x) : "m"(quarter(2)));
    asm("vinserti32x4 $3, %1, %0, %0" : "+v"(x) : "m"(quarter(3)));
    return turn(x);
  }
};

struct SomeQuarters {  // fewer, or `step` apart
  TurnQuarters turn;
  int count;
  long long step;

  TS_INLINE Vec operator()(const FourRows& four, long long at) const {
    alignas(64) Stored some[4][16];
    for (int r = 0; r < 4; ++r) {
      if (step == 1) {
        read_part<16>(four.row[r] + at, count, some[r]);
      } else {
        for (int l = 0; l < 16; ++l) some[r][l] = l < count ? four.row[r][at + l * step] : Stored{};
      }
    }
    return turn(*reinterpret_cast<const Vec*>(reinterpret_cast<const LooseVec*>(some)));
  }
};

// A run of pixels of lines that go together, for a vector of channels.
struct FoursRun {
  const FourRows* rows;  // of each word
  const float* weights;  // of the first line; the second's are behind them
  const FoursOfRows& fours;
  long long column, step;  // of the image: what the first pixel meets at tap 0; elements between its pixels
  long long pace, hop, size;
  long long channel;  // elements that the vector's first lies behind that of `rows`

  [[nodiscard]] TS_INLINE const float* weights_of(int line) const { return weights + line * fours.vectors() * kLanes; }
  [[nodiscard]] TS_INLINE IVec offset_of(int line) const {
    return (IVec)load(weights_of(line) + (fours.vectors() - 1) * kLanes);
  }
  template <int kLines, int kPixels>
  TS_INLINE static void put(const IVec (&sum)[kLines][kPixels], int* to) {
#pragma GCC unroll 2
    for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) store(to + (line * kTogether + p) * kLanes, sum[line][p]);
  }

  // kTaps taps that meet neighbouring pixels of the image, which are brought once.
  template <int kLines, int kPixels, int kTaps, int kPace>
  [[gnu::noinline]] void slide(int* to) const {
    constexpr int kMet = (kPixels - 1) * kPace + kTaps;
    const WholeQuarters read;
    const int low = (int)max_of(0, -column), high = (int)min_of(kMet, size - column);
    IVec sum[kLines][kPixels];
#pragma GCC unroll 2
    for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) sum[line][p] = offset_of(line);
    const float* first = weights_of(0);
    const float* second = weights_of(kLines - 1);
    for (long long word = 0; word < fours.words; ++word, first += kTaps * kLanes, second += kTaps * kLanes) {
      long long place = channel + column * step;
#pragma GCC unroll 32
      for (int at = 0; at < kMet; ++at, place += step) {
        const Vec x = at >= low && at < high ? read(rows[word], place) : raised<true>(Vec{});
#pragma GCC unroll 8
        for (int tap = 0; tap < kTaps; ++tap) {
          if (at < tap || (at - tap) % kPace != 0 || (at - tap) / kPace >= kPixels) continue;
          IVec& sum_of_first = sum[0][(at - tap) / kPace];
          sum_of_first = multiply_add(x, load(first + tap * kLanes), sum_of_first);
          if constexpr (kLines == 2) {
            IVec& sum_of_second = sum[1][(at - tap) / kPace];
            sum_of_second = multiply_add(x, load(second + tap * kLanes), sum_of_second);
          }
        }
      }
    }
    put(sum, to);
  }

  // Any taps.
  template <int kLines, class Read>
  [[gnu::noinline]] void visit(const Read& read, int* to) const {
    IVec sum[kLines][kTogether];
#pragma GCC unroll 2
    for (int line = 0; line < kLines; ++line)
#pragma GCC unroll 8
      for (int p = 0; p < kTogether; ++p) sum[line][p] = offset_of(line);
    for (long long word = 0; word < fours.words; ++word)
      for (long long tap = 0; tap < fours.taps; ++tap) {
        const long long number = (word * fours.taps + tap) * kLanes;
        const Vec first = load(weights_of(0) + number), second = load(weights_of(kLines - 1) + number);
        long long at = column + tap * hop;
#pragma GCC unroll 8
        for (int p = 0; p < kTogether; ++p, at += pace) {
          const Vec x = at >= 0 && at < size ? read(rows[word], channel + at * step) : raised<true>(Vec{});
          sum[0][p] = multiply_add(x, first, sum[0][p]);
          if constexpr (kLines == 2) sum[1][p] = multiply_add(x, second, sum[1][p]);
        }
      }
    put(sum, to);
  }

  template <int kLines, int kTaps, int kPace>
  TS_INLINE void slide_some(int pixels, int* to) const {
    if (pixels > kTogether / 2) return slide<kLines, kTogether, kTaps, kPace>(to);
    slide<kLines, kTogether / 2, kTaps, kPace>(to);
  }
  template <int kLines, int kPace>
  TS_INLINE bool slides(int pixels, int* to) const {
    switch (fours.taps) {
      case 2:
        return slide_some<kLines, 2, kPace>(pixels, to), true;
      case 3:
        return slide_some<kLines, 3, kPace>(pixels, to), true;
      case 4:
        return slide_some<kLines, 4, kPace>(pixels, to), true;
      case 5:
        return slide_some<kLines, 5, kPace>(pixels, to), true;
      case 7:
        return slide_some<kLines, 7, kPace>(pixels, to), true;
      default:
        return false;
    }
  }
  // Sums of `pixels` pixels of `lines` lines, kTogether vectors for each line.
  TS_INLINE void multiply(int lines, int pixels, const WholeQuarters& read, int* to) const {
    if (lines == 2) {
      if (hop != 1 || pace != 1 || !slides<2, 1>(pixels, to)) visit<2>(read, to);
    } else if (hop != 1 || pace > 2 || !(pace == 1 ? slides<1, 1>(pixels, to) : slides<1, 2>(pixels, to))) {
      visit<1>(read, to);
    }
  }
};

// Where the rows of a column of taps lie, of a line or of two that go together, and which of them lie inside the image.
struct RowsOfLines {
  FourRows* rows;  // those beside the image are some inside
  unsigned* inside;
  bool all;

  RowsOfLines(const Line& line, const FoursOfRows& fours, int lines, const FoursMemory& memory)
      : rows(memory.rows), inside(memory.inside), all(true) {
    const TsConvStrides& s = line.args.x_strides;
    const Axis &outer = line.phase.axis[0], &middle = line.phase.axis[1];
    const Stored* const member = static_cast<const Stored*>(line.args.x) + line.pixel.member * s.batch;
    const long long some = fours.rows + (lines - 1);
    for (long long word = 0; word < fours.words; ++word) inside[word] = 0;
    for (long long row = 0; row < 4 * fours.words; ++row) {
      // Of two lines the second's last row is one further than the filter reaches.
      const long long t0 = lines == 2 ? 0 : row / middle.taps, t1 = lines == 2 ? row : row % middle.taps;
      const long long at0 = line.i0 * outer.pace + outer.start + t0 * outer.hop;
      const long long at1 = line.i1 * middle.pace + middle.start + t1 * middle.hop;
      const bool is_inside = at0 >= 0 && at0 < outer.size && at1 >= 0 && at1 < middle.size;
      const auto within = [](long long at, const Axis& axis) { return max_of(0, min_of(at, axis.size - 1)); };
      rows[row / 4].row[row % 4] = member + within(at0, outer) * s.spatial[0] + within(at1, middle) * s.spatial[1];
      if (is_inside) inside[row / 4] |= 0xffu << row % 4 * 8;
      all = all && (is_inside || row >= some);
    }
  }

  // Whether a vector of channels may be read beyond the last one of every pixel that a run meets: the next pixel's.
  [[nodiscard]] bool may_read_on(const FoursRun& run, const Stored* end) const {
    if (end == nullptr) return false;
    const long long last = run.column + (kTogether - 1) * run.pace + (run.fours.taps - 1) * run.hop;
    const long long at = run.channel + max_of(0, min_of(last, run.size - 1)) * run.step + kLanes;
    for (long long word = 0; word < run.fours.words; ++word)
      for (const Stored* row : rows[word].row)
        if (end - row < at) return false;
    return true;
  }

  // The weights of `lines` forms that such rows meet.
  void mask(const FoursOfRows& fours, int lines, const float* from, float* to) const {
    for (int line = 0; line < lines; ++line, from += kLanes, to += kLanes) {
      IVec total = {};
      for (long long word = 0; word < fours.words; ++word)
        for (long long tap = 0; tap < fours.taps; ++tap, from += kLanes, to += kLanes) {
          const Vec met = (Vec)((UVec)load(from) & inside[word]);
          store(to, met);
          total = multiply_add((Vec)splat(0x80808080u), met, total);
        }
      store(to, (Vec)-total);
    }
  }
};

// Behind the image's last element; null where it has gaps.
inline const Stored* end_of_dense(const TsConvArgs& args) {
  const TsConvStrides& s = args.x_strides;
  long long size = args.groups;
  bool dense = s.group == 1;
  for (int d = 2; d >= 0; --d) {
    dense = dense && (args.x_size[d] == 1 || s.spatial[d] == size);
    size *= args.x_size[d];
  }
  dense = dense && (args.batch == 1 || s.batch == size);
  return dense ? static_cast<const Stored*>(args.x) + args.batch * size : nullptr;
}

inline void run_lines_of_fours(const Line& line, int lines) {
  const TsConvArgs& args = line.args;
  const TsConvStrides& to = args.y_strides;
  const FoursOfRows fours(args);
  const Axis& inner = line.phase.axis[2];
  const FoursMemory memory(fours, line.sums);
  const RowsOfLines met(line, fours, lines, memory);
  const bool in_registers = line.even && ByteResults::suit(args, to.group);
  const ByteResults bytes{args};
  const WholeQuarters whole;
  const long long of_vector = kMostLines * fours.vectors() * kLanes, group = args.x_strides.group;
  const Stored* const end_of_image = end_of_dense(args);
  const auto number = [&](long long vector) { return (vector - line.first) / kLanes; };
  if (!met.all)
    for (long long vector = line.first; vector < line.end; vector += kLanes)
      met.mask(fours, lines, weights_of_vector(args, vector_start(args, vector)),
               memory.weights + number(vector) * of_vector);

  Line next = line;
  ++next.i1;
  next.pixel.at[1] += line.phase.axis[1].step;
  Pixel first = line.pixel;
  first.at[2] = inner.first;
  signed char* const result = static_cast<signed char*>(args.out) + (in_registers ? place_of(to, first, 0) : 0);
  alignas(64) int sums[kMostLines * kTogether * kLanes];
  FoursRun run{met.rows, nullptr, fours, 0, args.x_strides.spatial[2], inner.pace, inner.hop, inner.size, 0};
  for (long long i = 0; i < inner.count; i += kTogether) {
    const int pixels = (int)min_of(kTogether, inner.count - i);
    run.column = i * inner.pace + inner.start;
    signed char* results[kMostLines][kTogether];
    for (int l = 0; l < kMostLines; ++l)
      for (int p = 0; p < kTogether; ++p) results[l][p] = result + l * to.spatial[1] + (i + p) * to.spatial[2];
    Line::Run to_come = line.run_from(i + kTogether, lines);
    if (lines == 2) to_come.image += to_come.image_row;  // the second line's last row
    for (long long vector = line.first; vector < line.end; vector += kLanes) {
      if (lines == 2)
        line.bring<1, 2, 2>(to_come, vector);
      else
        line.bring<1, 1, 1>(to_come, vector);
      const long long channel = vector_start(args, vector);
      const int count = (int)min_of(kLanes, line.end - channel);
      run.weights = met.all ? weights_of_vector(args, channel) : memory.weights + number(vector) * of_vector;
      run.channel = channel * group;
      if (line.dense && (count == kLanes || met.may_read_on(run, end_of_image))) {
        run.multiply(lines, pixels, whole, sums);
      } else {
        const SomeQuarters some{whole.turn, count, group};
        if (lines == 2)
          run.visit<2>(some, sums);
        else
          run.visit<1>(some, sums);
      }
      for (int l = 0; l < lines; ++l) {
        const int* const from = sums + l * kTogether * kLanes;
        if (in_registers) {
          bytes.finish(from, kLanes, pixels, channel, count, results[l], channel);
          continue;
        }
        for (int p = 0; p < pixels; ++p)
          store(line.sums + (l * kTogether + p) * kBlockChannels + (channel - line.first),
                as_floats(load(from + p * kLanes)));
      }
    }
    if (in_registers) continue;
    line.finish(i, pixels, line.sums);
    if (lines == 2) next.finish(i, pixels, line.sums + kTogether * kBlockChannels);
  }
}

void run_fours(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  if (!has_fours_of_rows(args)) return run_data(args_pointer, task, memory);
  const bool twice = FoursOfRows(args).twice;
  for_lines(args_pointer, task, memory, [&](const Line& here, bool more) {
    const Axis& middle = here.phase.axis[1];
    const bool together = twice && more && middle.pace == 1 && middle.hop == 1 && here.i1 + 1 < middle.count;
    run_lines_of_fours(here, together ? 2 : 1);
    return together ? 2 : 1;
  });
}
