// Packed weights of groups of few channels, whose result's channels lie along the lanes.

// Channels of a task: long enough lines for the prefetchers; of tiles as many as stay in the caches.
constexpr int kBlockChannels = (kTiles ? 4 : 32) * kLanes;

// Words of a group's channels of the image, which are its channels where words are floats.
TS_INLINE long long words_of_group(const TsConvArgs& args) {
  return blocks_of(width_of(args), kPack);
}

// Depthwise convolution in fours (depthwise_fours.h): a word has the weights of four rows of taps. Where the last word
// of a column of taps has room, a second form, of weights that begin one row later, is that of the next line, which
// meets the same rows of the image.
struct FoursOfRows {
  long long rows, words, taps;
  bool twice;  // both forms

  explicit FoursOfRows(const TsConvArgs& args)
      : rows(args.filter[0] * args.filter[1]),
        words((rows + 3) / 4),
        taps(args.filter[2]),
        twice(args.filter[0] == 1 && rows % 4 != 0) {}
  // Vectors of a form, the last of them what is added for the offset of the image's elements.
  [[nodiscard]] TS_INLINE long long vectors() const { return words * taps + 1; }
};
TS_INLINE bool has_fours_of_rows(const TsConvArgs& args) {
  return kOffset && width_of(args) == 1;
}

// Packed weights: for each vector of the result's channels its taps, each with as many vectors as the group has words;
// behind them, for each row of taps, what is added for the offset of the image's elements.
TS_INLINE long long words_of_vector(const TsConvArgs& args) {
  if (has_fours_of_rows(args)) {
    const FoursOfRows fours(args);
    return kLanes * fours.vectors() * (fours.twice ? 2 : 1);
  }
  return kLanes * (taps_of(args) * words_of_group(args) + (kOffset ? args.filter[0] * args.filter[1] : 0));
}

// Where a vector of channels begins, that from `channel` on. The last one begins earlier where it would not be whole,
// and shares channels with the one before; not where its block has no other, and not of tiles.
TS_INLINE long long vector_start(const TsConvArgs& args, long long channel) {
  if constexpr (kTiles) return channel;
  const long long channels = channels_of(args);
  return channel + kLanes > channels && channels % kBlockChannels >= kLanes ? channels - kLanes : channel;
}

TS_INLINE const float* weights_of_vector(const TsConvArgs& args, long long start) {
  return static_cast<const float*>(args.workspace) + blocks_of(start, kLanes) * words_of_vector(args);
}

long long workspace_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return 4 * blocks_of(channels_of(args), kLanes) * words_of_vector(args);
}

long long pack_tasks(const void* args_pointer) {
  return blocks_of(channels_of(arguments(args_pointer)), kLanes);
}

// Weights of `count` channels of the result in fours of the image's. A word may be of several groups, of which each
// multiplies the others' channels by zero.
template <class S = Sum>
inline void pack_fours(const TsConvArgs& args, long long channel, int count, float* to) {
  const TsConvStrides& s = args.w_strides;
  const long long width = width_of(args), words = words_of_group(args);
  const Stored* const w = static_cast<const Stored*>(args.w);
  const bool dense = width >= 4 && s.channel == 1;
  const Stored* lane[kLanes];
  for (int l = 0; l < count; ++l) lane[l] = w + (channel + l) / width * s.group + l % width * s.batch;
  float* offset = to + taps_of(args) * words * kLanes;
  S total = {};
  for (long long tap = 0; tap < taps_of(args); ++tap) {
    long long place = tap_place(args, tap);
    for (long long word = 0; word < words; ++word, to += kLanes, place += 4 * s.channel) {
      Stored some[kLanes][4] = {};
      for (int l = 0; dense && l < count; ++l) __builtin_memcpy(some[l], lane[l] + place, 4);
      for (int l = 0; !dense && l < count; ++l)
        for (int c = 0; c < min_of(4, width); ++c) some[l][(l - l % width + c) % 4] = lane[l][place + c * s.channel];
      const Vec fours = *reinterpret_cast<const LooseVec*>(some);
      store(to, fours);
      total = multiply_add((Vec)splat(0x01010101), fours, total);
    }
    if ((tap + 1) % args.filter[2] > 0) continue;
    store(offset, (Vec)(total * -128));
    offset += kLanes;
    total = S{};
  }
}

// Of `count` channels of their own groups, in fours of rows.
template <class S = Sum>
inline void pack_fours_of_rows(const TsConvArgs& args, long long channel, int count, float* to) {
  const FoursOfRows fours(args);
  const TsConvStrides& s = args.w_strides;
  for (int form = 0; form < (fours.twice ? 2 : 1); ++form, to += fours.vectors() * kLanes) {
    zero_words(to, (int)(fours.vectors() * kLanes));
    signed char* const bytes = reinterpret_cast<signed char*>(to);
    int total[kLanes] = {};
    for (long long row = 0; row < fours.rows; ++row) {
      const Stored* w = static_cast<const Stored*>(args.w) + channel * s.group + row / args.filter[1] * s.spatial[0] +
                        row % args.filter[1] * s.spatial[1];
      const long long at = row + form;
      signed char* four = bytes + at / 4 * fours.taps * 4 * kLanes + at % 4;
      for (long long tap = 0; tap < fours.taps; ++tap, w += s.spatial[2], four += 4 * kLanes)
        for (int l = 0; l < count; ++l) {
          const auto weight = (signed char)w[l * s.group];
          four[4 * l] = weight;
          total[l] += weight;
        }
    }
    store(to + (fours.vectors() - 1) * kLanes, (Vec)(load(total) * -128));
  }
}

void run_pack(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const TsConvStrides& s = args.w_strides;
  const long long taps = taps_of(args), width = width_of(args), channel = vector_start(args, task * kLanes);
  const int count = (int)min_of(kLanes, channels_of(args) - channel);
  const long long own = kForward ? s.batch : s.channel, other = kForward ? s.channel : s.batch;
  const Stored* const w = static_cast<const Stored*>(args.w);
  const auto place = [&](int l) { return (channel + l) / width * s.group + (channel + l) % width * own; };
  float* to = static_cast<float*>(args.workspace) + task * words_of_vector(args);
  if constexpr (kOffset) {
    if (width == 1) return pack_fours_of_rows(args, channel, count, to);
    return pack_fours(args, channel, count, to);
  }
  // A channel's weights that lie evenly are lines, which are turned. The stride of a dimension's only member says
  // nothing.
  const int inner = args.filter[2] > 1 ? 2 : args.filter[1] > 1 ? 1 : 0;
  const long long step = width == 1 ? s.spatial[inner] : other;
  const auto even = [&](int dim, long long within) {
    return args.filter[dim] == 1 || s.spatial[dim] == within * width * step;
  };
  if (even(2, 1) && even(1, args.filter[2]) && even(0, args.filter[1] * args.filter[2])) {
    for (long long first = 0; first < taps * width; first += kChunk, to += kLanes * kLanes) {
      const int some = (int)min_of(kChunk, taps * width - first);
      float lines[kLanes * kLanes], turned[kLanes * kLanes];
      for (int l = 0; l < kLanes; ++l) {
        if (l < count)
          line_to_words(w + place(l) + first * step, step, some, lines + l * kLanes);
        else
          store(lines + l * kLanes, Vec{});
      }
      transpose_block(lines, kLanes, turned, kLanes);
      for (int i = 0; i < words_of(some); ++i) store(to + i * kLanes, load(turned + i * kLanes));
    }
    return;
  }
  for (long long tap = 0; tap < taps; ++tap) {
    const Stored* const from = w + tap_place(args, tap);
    for (long long j = 0; j < width; j += kPack, to += kLanes) {
      if constexpr (kPack == 2) {  // backward data, where a group's channels are a vector
        if (own == 1 && width == kLanes) {
          store(to, pairs_of(from + place(0) + j * other, from + place(0) + (j + 1) * other));
          continue;
        }
      }
      Stored some[kLanes][kPack] = {};
      for (int l = 0; l < count; ++l)
        for (int e = 0; e < kPack; ++e) some[l][e] = from[place(l) + (j + e) * other];
      words_of_chunk<false>(some[0], to);
    }
  }
}
