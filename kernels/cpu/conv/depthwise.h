// Convolution of groups of few channels, forward and backward data. Channels of the result lie along the lanes, those
// of as many groups as a vector holds, so that a tap of a pixel is a vector of the image times a vector of weights:
// where a group has one channel (depthwise) the image's own, else one channel of each group, spread over the group's
// lanes; of bf16 in pairs (vdpbf16ps) two channels of each group, of int8 in fours (vpdpbusd) four, whose sums are
// integers. A task computes a run of pixels for a block of channels. Only rows of taps that meet the image are visited,
// and of floats only taps.

constexpr int kPixelsOfTask = 512;
constexpr int kTogether = 8;  // pixels that share the loads of the weights
constexpr bool kPairs =
    kAccumulators >= 2 * kTogether && kPack == 1;  // of lines, whose rows of the image are brought once
constexpr bool kCanStore = kElement == Element::fp32 || kElement == Element::bf16 || kElement == Element::fp16;
constexpr int kTapsOfGroups = 3;  // at most as many neighbouring taps share those of the image where groups are wider

static_assert(kTogether <= kAccumulators);

// Sums of pixels of two lines, and what the epilogue reads of one.
constexpr long long kSums = 2ll * kTogether * kBlockChannels + kLanes;

long long scratch_size(const void*) {
  return 4 * kSums;
}

// Pixels of a task: runs of the phases' lines, which are pixels along the innermost coordinate.
struct Grid {
  long long phases, lines, runs, blocks;
  long long lines_of_task;

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)),
        blocks(blocks_of(channels_of(args), kBlockChannels)) {
    const Phase first = phase_of(args, 0);  // has as many pixels as any
    lines = first.rows / first.axis[2].count;
    lines_of_task = max_of(1, kPixelsOfTask / first.axis[2].count);
    while (lines_of_task > 1 && phases * blocks * blocks_of(lines, lines_of_task) < 4 * args.threads)
      lines_of_task /= 2;
    runs = blocks_of(lines, lines_of_task);
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

template <class S>
TS_INLINE S multiplied(S sum, Vec weights, Vec image) {
  if constexpr (kPack > 1)
    return multiply_add(image, weights, sum);
  else
    return sum + weights * image;
}

TS_INLINE Vec as_floats(Vec sum) {
  return sum;
}
TS_INLINE Vec as_floats(IVec sum) {
  return __builtin_convertvector(sum, Vec);
}

// The image's vectors of channels, or of words, as the channels of the result meet them. `channel`, `word`: of the
// groups.
struct Own {  // groups of one channel, whole vectors
  TS_INLINE Vec operator()(const Stored* from, long long) const { return load_floats<kElement, kLanes>(from); }
};

struct Spread {  // one channel of each group in all its lanes
  const IVec* lanes;
  TS_INLINE Vec operator()(const Stored* from, long long channel) const {
    return permuted(load_floats<kElement, kLanes>(from), lanes[channel]);
  }
};

struct Broadcast {  // the same, of groups as wide as a vector, from memory: permutations and products share a port
  TS_INLINE Vec operator()(const Stored* from, long long channel) const { return splat((float)from[channel]); }
};

struct SpreadPairs {  // one pair of channels of each group in all its lanes
  const IVec* lanes;
  TS_INLINE Vec operator()(const Stored* from, long long word) const {
    typedef float Half __attribute__((vector_size(32), aligned(1), may_alias));
    Vec x;
    asm("vbroadcastf64x4 %1, %0" : "=v"(x) : "m"(*reinterpret_cast<const Half*>(from)));
    return permuted(x, lanes[word]);
  }
};

struct BroadcastPairs {  // the same, of groups as wide as a vector
  TS_INLINE Vec operator()(const Stored* from, long long word) const {
    int x;
    __builtin_memcpy(&x, from + 2 * word, 4);
    return (Vec)splat(x);
  }
};

struct SpreadFours {  // one word of each group in all its lanes
  const IVec* lanes;
  TS_INLINE Vec operator()(const Stored* from, long long word) const {
    typedef float Quarter __attribute__((vector_size(16), aligned(1), may_alias));
    Vec x;
    asm("vbroadcastf32x4 %1, %0" : "=v"(x) : "m"(*reinterpret_cast<const Quarter*>(from)));
    x = raised<true>(x);
    asm("vpermilps %1, %0, %0" : "+v"(x) : "v"(lanes[word]));
    return x;
  }
};

struct BroadcastFours {  // the same, of groups as wide as a vector
  TS_INLINE Vec operator()(const Stored* from, long long word) const {
    int x;
    __builtin_memcpy(&x, from + 4 * word, 4);
    return raised<true>((Vec)splat(x));
  }
};

struct Gathered {  // channels that do not lie behind one another, or are less than a vector
  const IVec* lanes;
  const long long* places;
  int count;
  Vec operator()(const Stored* from, long long channel) const {
    Stored some[kLanes] = {};
    for (int l = 0; l < count; ++l) some[l] = from[places[l]];
    if constexpr (kOffset) return SpreadFours{lanes}(some, channel);
    if constexpr (kPack == 2) return SpreadPairs{lanes}(some, channel);
    return permuted(load_floats<kElement, kLanes>(some), lanes[channel]);
  }
};

// A row of taps: elements of the image from one pixel, and one tap, to the next; words of the weights between taps.
struct Row {
  long long pixel, tap, weight, taps;
};

// Adds a row to kPixels pixels. Taps before `low` and from `high` on meet zeros.
template <int kPixels, class Read>
TS_INLINE void add_row(Sum (&sums)[kPixels], const Stored* image, const float* weights, const Row& row, long long words,
                       long long low, long long high, Read read) {
  for (long long tap = 0; tap < row.taps; ++tap, image += row.tap, weights += row.weight)
    for (long long word = 0; word < words; ++word) {
      const Vec weight = load(weights + word * kLanes);
      const bool inside = !kOffset || (tap >= low && tap < high);
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p)
        sums[p] = multiplied(sums[p], weight, inside ? read(image + p * row.pixel, word) : raised<true>(Vec{}));
    }
}

// The same of kTaps taps that meet neighbouring pixels of the image, from pixels that meet pixels kPace apart: each
// vector of the image is brought once. `image` is what the first pixel meets at the first tap; of the pixels from there
// on, those from `low` to `high` lie inside the image, with kEdge not all.
template <int kPixels, int kTaps, int kPace, bool kEdge, class Read>
TS_INLINE void slide_row(Sum (&sums)[kPixels], const Stored* image, const float* weights, const Row& row,
                         long long words, int low, int high, Read read) {
  for (long long word = 0; word < words; ++word, weights += kLanes) {
#pragma GCC unroll 32
    for (int at = 0; at < (kPixels - 1) * kPace + kTaps; ++at) {
      const bool inside = !kEdge || (at >= low && at < high);
      if (!kOffset && !inside) continue;
      const Vec x = inside ? read(image + at * row.tap, word) : raised<true>(Vec{});
#pragma GCC unroll 8
      for (int tap = 0; tap < kTaps; ++tap)
        if (at >= tap && (at - tap) % kPace == 0 && (at - tap) / kPace < kPixels)
          sums[(at - tap) / kPace] = multiplied(sums[(at - tap) / kPace], load(weights + tap * row.weight), x);
    }
  }
}

// The same of two lines of pixels, of which the second meets a row of the image at the taps of weights_of_second.
template <int kPixels, int kTaps, bool kEdge, class Read>
TS_INLINE void slide_rows(Sum (&sums)[kPixels], Sum (&second)[kPixels], const Stored* image, const float* weights,
                          const float* weights_of_second, const Row& row, int low, int high, Read read) {
#pragma GCC unroll 32
  for (int at = 0; at < kPixels - 1 + kTaps; ++at) {
    if (kEdge && (at < low || at >= high)) continue;
    const Vec x = read(image + at * row.tap, 0);
#pragma GCC unroll 8
    for (int tap = 0; tap < kTaps; ++tap)
      if (at >= tap && at - tap < kPixels) {
        sums[at - tap] = multiplied(sums[at - tap], load(weights + tap * row.weight), x);
        second[at - tap] = multiplied(second[at - tap], load(weights_of_second + tap * row.weight), x);
      }
  }
}

// Where sums of a line's pixels go: to floats, or as elements of the result where no operation follows.
struct Target {
  float* sums;
  Stored* result;  // null: to the floats
  long long step;  // from one pixel to the next

  [[nodiscard]] TS_INLINE Target behind(long long elements) const {
    return {sums + (result == nullptr ? elements : 0), result == nullptr ? nullptr : result + elements, step};
  }
  TS_INLINE void put(long long at, Vec x) const {
    if (kCanStore && result != nullptr)
      store_floats<kCanStore ? kElement : Element::fp32, kLanes>(result + at, x);
    else
      store(sums + at, x);
  }
  // The first `count` lanes.
  void put_some(long long at, Vec x, int count) const {
    float floats[kLanes];
    store(floats, x);
    if (kCanStore && result != nullptr) {
      Stored some[kLanes];
      store_floats<kCanStore ? kElement : Element::fp32, kLanes>(some, x);
      for (int l = 0; l < count; ++l) result[at + l] = some[l];
    } else {
      for (int l = 0; l < count; ++l) sums[at + l] = floats[l];
    }
  }
};

// A line of pixels of a phase, along the innermost axis, for a block of channels.
struct Line {
  const TsConvArgs &args, &written;  // the same; as the epilogue sees it
  const Phase& phase;
  Pixel pixel;       // of the result, at[2] yet to be set
  long long i0, i1;  // coordinates in the phase of the outer two axes
  Met outer_met, middle_met;
  long long first, end;  // channels
  const IVec* lanes;     // of a vector of the image's channels, or words, for each of a group
  bool dense, even;      // channels of the image lie behind one another; what the epilogue writes and reads lies evenly
  float* sums;           // of kTogether pixels of two lines

  // Calls add(image, weights, offset) for every row of taps that meets the image: what it meets at channel `channel` of
  // the groups from the innermost axis's pixel 0, the weights of its tap 0, and what is added for the offset.
  template <class Add>
  TS_INLINE void for_rows(long long channel, Add add) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const Axis &outer = phase.axis[0], &middle = phase.axis[1];
    const long long width = width_of(args), tap_words = words_of_group(args) * kLanes;
    const long long rows = middle.tap_step * args.filter[2] * tap_words, step = middle.hop * from.spatial[1];
    const float* const of_vector = weights_of_vector(args, channel);
    for (long long t0 = outer_met.first; t0 < outer_met.end; ++t0) {
      const Stored* image = static_cast<const Stored*>(kForward ? args.x : args.y) + pixel.member * from.batch +
                            channel_place(from, width, channel) +
                            (i0 * outer.pace + outer.start + t0 * outer.hop) * from.spatial[0] +
                            (i1 * middle.pace + middle.start + middle_met.first * middle.hop) * from.spatial[1];
      const long long number = (outer.tap_first + t0 * outer.tap_step) * args.filter[1] + middle.tap_first +
                               middle_met.first * middle.tap_step;
      const float* weights = of_vector + number * args.filter[2] * tap_words;
      const float* offset = of_vector + taps_of(args) * tap_words + number * kLanes;
      for (long long t1 = middle_met.first; t1 < middle_met.end; ++t1, image += step, weights += rows) {
        add(image, weights, offset);
        offset += middle.tap_step * kLanes;
      }
    }
  }

  template <int kPixels>
  TS_INLINE static void add_offset(Sum (&sum)[kPixels], const float* offset) {
    if constexpr (!kOffset) return;
    const Sum more = (Sum)load(offset);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) sum[p] += more;
  }

  // kPixels pixels from i on, that meet these taps of the innermost axis, for a vector of channels.
  template <int kPixels, class Read>
  TS_INLINE void add_vector(long long i, Met met, long long channel, Read read, Sum (&sum)[kPixels]) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const Axis& inner = phase.axis[2];
    const long long words = words_of_group(args), tap_words = words * kLanes;
    const Met visited = kOffset ? Met{0, inner.taps} : met;
    const long long place = (i * inner.pace + inner.start + visited.first * inner.hop) * from.spatial[2];
    const long long tap = (inner.tap_first + visited.first * inner.tap_step) * tap_words;
    const Row row = {inner.pace * from.spatial[2], inner.hop * from.spatial[2], inner.tap_step * tap_words,
                     visited.end - visited.first};
    for_rows(channel, [&](const Stored* image, const float* weights, const float* offset) {
      add_offset(sum, offset);
      add_row<kPixels>(sum, image + place, weights + tap, row, words, met.first, met.end, read);
    });
  }

  template <int kPixels, int kTaps, int kPace, class Read>
  TS_INLINE void slide_vector(long long i, long long channel, Read read, Sum (&sum)[kPixels]) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const Axis& inner = phase.axis[2];
    const long long words = words_of_group(args), tap_words = words * kLanes;
    // Where taps go against the pixels, the last one is the first.
    const bool turned = inner.hop < 0;
    const long long begin = i * kPace + inner.start - (turned ? kTaps - 1 : 0);
    const long long tap = (inner.tap_first + (turned ? kTaps - 1 : 0) * inner.tap_step) * tap_words;
    const Row row = {0, from.spatial[2], turned ? -inner.tap_step * tap_words : inner.tap_step * tap_words, kTaps};
    constexpr int kMet = (kPixels - 1) * kPace + kTaps;
    const int low = (int)max_of(0, -begin), high = (int)min_of(kMet, inner.size - begin);
    for_rows(channel, [&](const Stored* image, const float* weights, const float* offset) {
      const Stored* const at = image + begin * from.spatial[2];
      add_offset(sum, offset);
      if (low == 0 && high == kMet)
        slide_row<kPixels, kTaps, kPace, false>(sum, at, weights + tap, row, words, low, high, read);
      else
        slide_row<kPixels, kTaps, kPace, true>(sum, at, weights + tap, row, words, low, high, read);
    });
  }

  // Where a run of kTogether pixels meets the last row of the image, and where it goes, from the block's first channel
  // on; how far apart pixels and rows are there, the result's in bytes.
  struct Run {
    const Stored* image;
    char* result;  // null where its channels do not lie evenly
    long long image_pixel, image_row, result_pixel, result_line;
    int result_element;
  };

  // Of pixels from i on. Behind the line's last pixel that is where the line begins which is `lines` further on.
  TS_INLINE Run run_from(long long i, long long lines) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const TsConvStrides& to = kForward ? args.y_strides : args.x_strides;
    const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
    const bool behind = i >= inner.count;
    const long long at = behind ? i - inner.count : i, further = behind ? lines : 0;
    const long long last0 = outer.hop > 0 ? outer_met.end - 1 : outer_met.first;
    const long long last1 = middle.hop > 0 ? middle_met.end - 1 : middle_met.first;
    Pixel there = pixel;
    there.at[1] += further * phase.axis[1].step;
    there.at[2] = inner.first + at * inner.step;
    const int bytes = (int)bytes_of(args.out_type);
    return {static_cast<const Stored*>(kForward ? args.x : args.y) + pixel.member * from.batch +
                channel_place(from, width_of(args), first) +
                (i0 * outer.pace + outer.start + last0 * outer.hop) * from.spatial[0] +
                ((i1 + further) * middle.pace + middle.start + last1 * middle.hop) * from.spatial[1] +
                at * inner.pace * from.spatial[2],
            even ? static_cast<char*>(args.out) +
                       bytes * (place_of(to, there, 0) + channel_place(to, width_of(args), first))
                 : nullptr,
            from.spatial[2],
            from.spatial[1],
            bytes * inner.step * to.spatial[2],
            bytes * phase.axis[1].step * to.spatial[1],
            bytes};
  }

  // Brings a line of the caches of each pixel of a run, of kRows rows of the image and of kLines lines of the result,
  // where one begins at this channel: while another run is computed, so that neither waits for the other.
  template <int kPace, int kRows, int kLines>
  TS_INLINE void bring(const Run& run, long long channel) const {
    constexpr long long kLine = 64;
    const long long behind = channel - first;
    if (behind * (long long)sizeof(Stored) % kLine == 0) {
      const Stored* row = run.image + behind;
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r, row -= run.image_row) {
        const Stored* met = row;
#pragma GCC unroll 16
        for (int p = 0; p < kTogether * kPace; ++p, met += run.image_pixel) __builtin_prefetch(met);
      }
    }
    const long long place =
        behind * channel_step(kForward ? args.y_strides : args.x_strides, width_of(args)) * run.result_element;
    if (run.result != nullptr && place % kLine == 0) {
      char* line = run.result + place;
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l, line += run.result_line) {
        char* to = line;
#pragma GCC unroll 8
        for (int p = 0; p < kTogether; ++p, to += run.result_pixel) asm volatile("prefetchw %0" : : "m"(*to));
      }
    }
  }

  // Where sums of pixels go, from pixel 0 of the line on: to the result where no operation follows, else to this
  // thread's floats.
  [[nodiscard]] Target target() const {
    constexpr TsGemmElement kType = kElement == Element::bf16 ? TS_BF16 : kElement == Element::fp16 ? TS_FP16 : TS_FP32;
    const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
    if (!kCanStore || args.out_type != kType || args.operations[0] != TS_END || !even ||
        channel_step(strides, width_of(args)) != 1)
      return {sums, nullptr, kBlockChannels};
    Pixel at = pixel;
    at.at[2] = phase.axis[2].first;
    return {nullptr,
            static_cast<Stored*>(args.out) + place_of(strides, at, 0) + channel_place(strides, width_of(args), first),
            phase.axis[2].step * strides.spatial[2]};
  }
  // Of pixels from i on.
  [[nodiscard]] static Target from_pixel(const Target& target, long long i) {
    return target.result == nullptr ? target : target.behind(i * target.step);
  }

  template <int kPixels>
  TS_INLINE void put(const Sum (&sum)[kPixels], int pixels, long long channel, const Target& to) const {
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p)
      if (p < pixels) to.put(p * to.step + (channel - first), as_floats(sum[p]));
  }

  // Calls use(read) with what reads whole vectors of the image.
  template <class Use>
  TS_INLINE void with_reader(Use use) const {
    if constexpr (kOffset) {
      if (width_of(args) == kLanes) return use(BroadcastFours{});
      return use(SpreadFours{lanes});
    }
    if constexpr (kPack == 2) {
      if (width_of(args) == kLanes) return use(BroadcastPairs{});
      return use(SpreadPairs{lanes});
    }
    if (width_of(args) == 1) return use(Own{});
    if constexpr (kElement == Element::fp32) {
      if (width_of(args) == kLanes) return use(Broadcast{});
    }
    use(Spread{lanes});
  }

  // `pixels` of kPixels pixels from i on: sums of a block of channels.
  template <int kPixels, int kTaps, int kPace>
  void slide(long long i, int pixels, const Target& to) const {
    const Run next = run_from(i + kTogether, 1);
    for (long long vector = first; vector < end; vector += kLanes) {
      const long long channel = vector_start(args, vector);
      if (kPixels == kTogether) {
        if (phase.axis[1].pace == 1)
          bring<kPace, 1, 1>(next, vector);
        else
          bring<kPace, 2, 1>(next, vector);
      }
      if (channel + kLanes > end) {
        for (int p = 0; p < pixels; ++p) add_gathered(i + p, channel, to.behind(p * to.step));
        break;
      }
      Sum sum[kPixels] = {};
      if constexpr (kTaps > kTapsOfGroups)
        slide_vector<kPixels, kTaps, kPace>(i, channel, Own{}, sum);
      else
        with_reader([&](auto read)
                        __attribute__((always_inline)) { slide_vector<kPixels, kTaps, kPace>(i, channel, read, sum); });
      put(sum, pixels, channel, to);
    }
  }

  // One pixel for a vector of channels of which perhaps not all are there.
  void add_gathered(long long i, long long channel, const Target& to) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const long long width = width_of(args);
    const int count = (int)min_of(kLanes, end - channel);
    long long places[kLanes];
    for (int l = 0; l < count; ++l)
      places[l] = channel_place(from, width, channel + l) - channel_place(from, width, channel);
    Sum sum[1] = {};
    add_vector<1>(i, met_by(phase.axis[2], i), channel, Gathered{lanes, places, count}, sum);
    to.put_some(channel - first, as_floats(sum[0]), count);
  }

  template <int kPixels>
  void add(long long i, Met met, const Target& to) const {
    for (long long vector = first; vector < end; vector += kLanes) {
      const long long channel = vector_start(args, vector);
      if (dense && channel + kLanes <= end) {
        Sum sum[kPixels] = {};
        with_reader([&](auto read) __attribute__((always_inline)) { add_vector<kPixels>(i, met, channel, read, sum); });
        put(sum, kPixels, channel, to);
      } else {
        for (int p = 0; p < kPixels; ++p) add_gathered(i + p, channel, to.behind(p * to.step));
      }
    }
  }

  // `pixels` of up to kTogether pixels from i on.
  void finish(long long i, int pixels, const float* from) const {
    static_assert(kTogether <= kResultLines);
    finish_channels(args, written, even, phase, pixel, i, pixels, first, end, from, kBlockChannels);
  }

  // Calls compute(i, pixels, target) for runs of up to kTogether pixels, and finishes them.
  template <class Compute>
  TS_INLINE void in_runs(Compute compute) const {
    const Axis& inner = phase.axis[2];
    const Target all = target();
    for (long long i = 0; i < inner.count;) {
      const int pixels = compute(i, (int)min_of(kTogether, inner.count - i), from_pixel(all, i));
      if (all.result == nullptr) finish(i, pixels, sums);
      i += pixels;
    }
  }

  template <int kTaps, int kPace>
  void slide_all() const {
    in_runs([&](long long i, int pixels, const Target& to) {
      if (pixels > kTogether / 2)
        slide<kTogether, kTaps, kPace>(i, pixels, to);
      else
        slide<kTogether / 2, kTaps, kPace>(i, pixels, to);
      return pixels;
    });
  }

  template <int kPace>
  [[nodiscard]] bool slides() const {
    const Axis& inner = phase.axis[2];
    if (!dense || inner.pace != kPace || (inner.hop != 1 && inner.hop != -1)) return false;
    if (width_of(args) > 1 && inner.taps > kTapsOfGroups) return false;
    if (inner.taps == 3) return slide_all<3, kPace>(), true;
    if constexpr (kPack == 1) {
      if (inner.taps == 5) return slide_all<5, kPace>(), true;
      if (inner.taps == 7) return slide_all<7, kPace>(), true;
    }
    if constexpr (!kForward || kPack == 1) {  // phases of strides; even filters
      if (inner.taps == 2) return slide_all<2, kPace>(), true;
      if (inner.taps == 4) return slide_all<4, kPace>(), true;
    }
    if constexpr (!kForward)
      if (inner.taps == 1) return slide_all<1, kPace>(), true;
    return false;
  }

  // This line and the next, which meet neighbouring rows of the image: kPixels pixels of both from i on.
  template <int kPixels, int kTaps, bool kEdge>
  TS_INLINE void slide_pair(long long i, long long channel, Sum (&sum)[kPixels], Sum (&second)[kPixels]) const {
    const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
    const Axis &outer = phase.axis[0], &middle = phase.axis[1], &inner = phase.axis[2];
    // Rows of the image and pixels in their order; where taps go against them, the last tap is the first.
    const bool down = middle.hop < 0, turned = inner.hop < 0;
    const long long begin = i + inner.start - (turned ? kTaps - 1 : 0);
    const long long first_row = i1 + middle.start - (down ? middle.taps - 1 : 0);
    const long long first_tap = middle.tap_first + (down ? middle.taps - 1 : 0) * middle.tap_step;
    const long long tap = inner.tap_first + (turned ? kTaps - 1 : 0) * inner.tap_step;
    const long long next = (down ? -middle.tap_step : middle.tap_step) * args.filter[2] * kLanes;
    const Row row = {0, from.spatial[2], (turned ? -inner.tap_step : inner.tap_step) * kLanes, kTaps};
    const int low = (int)max_of(0, -begin), high = (int)min_of(kPixels - 1 + kTaps, inner.size - begin);
    for (long long t0 = outer_met.first; t0 < outer_met.end; ++t0) {
      const Stored* image = static_cast<const Stored*>(kForward ? args.x : args.y) + pixel.member * from.batch +
                            channel * from.group + (i0 * outer.pace + outer.start + t0 * outer.hop) * from.spatial[0] +
                            first_row * from.spatial[1] + begin * from.spatial[2];
      const float* weights =
          weights_of_vector(args, channel) +
          (((outer.tap_first + t0 * outer.tap_step) * args.filter[1] + first_tap) * args.filter[2] + tap) * kLanes;
      slide_row<kPixels, kTaps, 1, kEdge>(sum, image, weights, row, 1, low, high, Own{});
      for (long long t1 = 1; t1 < middle.taps; ++t1) {
        image += from.spatial[1];
        weights += next;
        slide_rows<kPixels, kTaps, kEdge>(sum, second, image, weights, weights - next, row, low, high, Own{});
      }
      slide_row<kPixels, kTaps, 1, kEdge>(second, image + from.spatial[1], weights, row, 1, low, high, Own{});
    }
  }

  template <int kTaps>
  void slide_pairs() const {
    const Axis& inner = phase.axis[2];
    const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
    const Target all = target();
    const bool straight = all.result != nullptr;
    const long long to_second = straight ? phase.axis[1].step * strides.spatial[1] : kTogether * kBlockChannels;
    Line next = *this;
    ++next.i1;
    next.pixel.at[1] += phase.axis[1].step;
    for (long long i = 0; i < inner.count; i += kTogether) {
      const int pixels = (int)min_of(kTogether, inner.count - i);
      const Target to = from_pixel(all, i), second_to = to.behind(to_second);
      const bool whole = i + inner.start + min_of(0, (kTaps - 1) * inner.hop) >= 0 &&
                         i + kTogether - 1 + inner.start + max_of(0, (kTaps - 1) * inner.hop) < inner.size;
      Run to_come = run_from(i + kTogether, 2);
      to_come.image += to_come.image_row;  // the second line's last row
      for (long long vector = first; vector < end; vector += kLanes) {
        const long long channel = vector_start(args, vector);
        bring<1, 2, 2>(to_come, vector);
        if (channel + kLanes > end) {
          for (int p = 0; p < pixels; ++p) {
            add_gathered(i + p, channel, to.behind(p * to.step));
            next.add_gathered(i + p, channel, second_to.behind(p * to.step));
          }
          break;
        }
        Sum sum[kTogether] = {}, second[kTogether] = {};
        if (whole)
          slide_pair<kTogether, kTaps, false>(i, channel, sum, second);
        else
          slide_pair<kTogether, kTaps, true>(i, channel, sum, second);
        put(sum, pixels, channel, to);
        put(second, pixels, channel, second_to);
      }
      if (straight) continue;
      finish(i, pixels, to.sums);
      next.finish(i, pixels, second_to.sums);
    }
  }

  // Whether it went together with the next line: where both meet all rows of taps, at neighbouring rows of the image.
  template <bool kWanted = kPairs>
  [[nodiscard]] bool runs_with_next() const {
    if constexpr (kWanted) {
      const Axis &middle = phase.axis[1], &inner = phase.axis[2];
      const auto meets_neighbours = [](const Axis& axis) {
        return axis.pace == 1 && (axis.hop == 1 || axis.hop == -1);
      };
      if (!dense || width_of(args) > 1 || i1 + 1 == middle.count || !meets_neighbours(middle) ||
          !meets_neighbours(inner))
        return false;
      const Met next = met_by(middle, i1 + 1);
      if (middle_met.first > 0 || middle_met.end < middle.taps || next.first > 0 || next.end < middle.taps)
        return false;
      if (inner.taps == 3) return slide_pairs<3>(), true;
      if (inner.taps == 5) return slide_pairs<5>(), true;
      if (inner.taps == 7) return slide_pairs<7>(), true;
    }
    return false;
  }

  void run() const {
    if (slides<1>()) return;
    if constexpr (kForward) {
      if (slides<2>()) return;
    }
    const Axis& inner = phase.axis[2];
    const Met all = met_by_all(inner);
    in_runs([&](long long i, int, const Target& to) {
      if (i >= all.first && all.end - i >= kTogether) {
        add<kTogether>(i, {0, inner.taps}, to);
        return kTogether;
      }
      add<1>(i, met_by(inner, i), to);
      return 1;
    });
  }
};

// Calls run(line, more) for a task's lines, more: whether another line of the task follows; it tells how many it ran.
template <class RunLine>
TS_INLINE void for_lines(const void* args_pointer, long long task, void* memory, RunLine run) {
  const TsConvArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const TsConvStrides& from = kForward ? args.x_strides : args.y_strides;
  const long long width = width_of(args), channel = task % grid.blocks * kBlockChannels;
  task /= grid.blocks;
  const Phase phase = phase_of(args, task / grid.runs);
  const long long lines = phase.rows / phase.axis[2].count, first = task % grid.runs * grid.lines_of_task;
  IVec lanes[kLanes];
  spread_lanes(width, lanes);
  const ChannelsAsGroups channels(args, 0);
  const TsConvArgs& written = width == 1 ? args : channels;
  const bool dense = is_even(from, width) && channel_step(from, width) == 1;
  const long long end = min_of(lines, first + grid.lines_of_task);
  for (long long line = first; line < end;) {
    const long long i1 = line % phase.axis[1].count, outer = line / phase.axis[1].count;
    const long long i0 = outer % phase.axis[0].count, member = outer / phase.axis[0].count;
    const Pixel pixel = {
        member, 0, {phase.axis[0].first + i0 * phase.axis[0].step, phase.axis[1].first + i1 * phase.axis[1].step, 0}};
    const Line here{args,
                    written,
                    phase,
                    pixel,
                    i0,
                    i1,
                    met_by(phase.axis[0], i0),
                    met_by(phase.axis[1], i1),
                    channel,
                    min_of(channels_of(args), channel + kBlockChannels),
                    lanes,
                    dense,
                    writes_evenly(args),
                    static_cast<float*>(memory)};
    line += run(here, line + 1 < end);
  }
}

void run_data(const void* args_pointer, long long task, void* memory) {
  for_lines(args_pointer, task, memory, [](const Line& here, bool more) {
    if (more && here.runs_with_next()) return 2;
    here.run();
    return 1;
  });
}
