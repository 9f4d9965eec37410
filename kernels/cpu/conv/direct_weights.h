// Packed weights where pixels lie along the lanes: for each group and word of its image's channels all taps, each with
// the result's channels, of which a product broadcasts one. Behind them is room for a vector that is read at the end.

struct PackedWeights {
  long long words, taps, columns;  // of a group: words of the image's channels, channels of the result

  explicit PackedWeights(const TsConvArgs& args)
      : words(blocks_of(image_channels(args), kPack)), taps(taps_of(args)), columns(result_channels(args)) {}

  [[nodiscard]] long long of_word() const { return taps * columns; }
  [[nodiscard]] long long place(long long group, long long word) const { return (group * words + word) * of_word(); }
};

long long workspace_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return 4 * (PackedWeights(args).place(args.groups, 0) + kLanes);
}

// A task packs a word of a group.
long long pack_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return args.groups * PackedWeights(args).words;
}

void run_pack(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const TsConvStrides& s = args.w_strides;
  const PackedWeights packed(args);
  const long long group = task / packed.words, channel = task % packed.words * kPack;
  const long long step = kForward ? s.channel : s.batch, column_step = kForward ? s.batch : s.channel;
  const int elements = (int)min_of(kPack, image_channels(args) - channel);
  const Stored* const first = static_cast<const Stored*>(args.w) + group * s.group + channel * step;
  float* to = static_cast<float*>(args.workspace) + task * packed.of_word();
  for (long long tap = 0; tap < packed.taps; ++tap) {
    const Stored* from = first + tap_place(args, tap);
    for (long long c = 0; c < packed.columns; c += kLanes, from += kLanes * column_step) {
      const int count = (int)min_of(kLanes, packed.columns - c);
      Stored some[kChunk] = {};
      for (int l = 0; l < count; ++l)
        for (int e = 0; e < elements; ++e) some[l * kPack + e] = from[l * column_step + e * step];
      float words[kLanes];
      words_of_chunk<false>(some, words);
      for (int l = 0; l < count; ++l) to[l] = words[l];  // what lies behind is of other tasks
      to += count;
    }
  }
}
