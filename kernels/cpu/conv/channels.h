// Channels of groups of few along the lanes: a vector holds whole groups.

// Channels of a group, of the image as of the result.
TS_INLINE long long width_of(const TsConvArgs& args) {
  return args.c;
}
TS_INLINE long long channels_of(const TsConvArgs& args) {
  return args.groups * width_of(args);
}

// Where a channel lies, counted through the groups.
TS_INLINE long long channel_place(const TsConvStrides& s, long long width, long long channel) {
  return channel / width * s.group + channel % width * s.channel;
}
// Whether channels lie evenly, and how far apart.
TS_INLINE bool is_even(const TsConvStrides& s, long long width) {
  return width == 1 || s.group == width * s.channel;
}
TS_INLINE long long channel_step(const TsConvStrides& s, long long width) {
  return width == 1 ? s.group : s.channel;
}

// Lane l of the result is lane from[l] of x.
TS_INLINE Vec permuted(Vec x, IVec from) {
  Vec y;
  asm("vpermps %1, %2, %0" : "=v"(y) : "v"(x), "v"(from));
  return y;
}

// The lanes that spread one word of each group over all lanes of the group, by that word; of groups narrower than a
// word the one that they are in.
inline void spread_lanes(long long width, IVec (&lanes)[kLanes]) {
  for (int j = 0; j < blocks_of(width, kPack); ++j) {
    int of_lane[kLanes];
    for (int l = 0; l < kLanes; ++l) of_lane[l] = (l - l % (int)width) / kPack + j;
    lanes[j] = load(of_lane);
  }
}
