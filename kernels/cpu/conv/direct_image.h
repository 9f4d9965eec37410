// The part of the image that a task's pixels meet, as words along its pixels: of each word of channels a plane, which
// has zeros beside the image. Pixels that leave the same remainder by the pace are neighbours there, so that what a
// tap meets of a vector of pixels is a vector of the plane.

TS_INLINE long long magnitude(long long x) {
  return x < 0 ? -x : x;
}

// Pixels first .. first + count - 1 of a phase along one axis, and what they meet of the image.
struct Stretch {
  const Axis& axis;
  long long first, count;
  long long begin;       // the lowest pixel of the image that the first of them meets
  long long remainders;  // by the pace, that taps leave
  long long length;      // pixels of the image of one remainder

  Stretch(const Axis& its, long long at, long long pixels)
      : axis(its),
        first(at),
        count(pixels),
        begin(at * its.pace + its.start - (its.hop < 0 ? reach() : 0)),
        remainders(min_of(its.pace, reach() + 1)),
        length(pixels + reach() / its.pace) {}

  // From the lowest to the highest pixel that the taps of one pixel meet.
  [[nodiscard]] long long reach() const { return max_of(0, axis.taps - 1) * magnitude(axis.hop); }
  // Of a tap, from the lowest pixel on.
  [[nodiscard]] long long offset(long long tap) const { return tap * axis.hop + (axis.hop < 0 ? reach() : 0); }
  [[nodiscard]] long long at(long long remainder, long long i) const { return begin + i * axis.pace + remainder; }
};

// The pixels of a task.
struct Block {
  const Phase& phase;
  long long member, outer;  // and the coordinate of the outer axis
  Stretch lines, pixels;

  // Positions are pixels of lines behind one another, with those between them that are met but not computed.
  [[nodiscard]] long long pitch() const { return pixels.length; }
  [[nodiscard]] long long positions() const { return (lines.count - 1) * pitch() + pixels.count; }
  [[nodiscard]] long long part() const { return lines.length * pitch(); }  // of two remainders
  [[nodiscard]] long long plane() const {
    return phase.axis[0].taps * lines.remainders * pixels.remainders * part() + kLanes;
  }
  // Where position 0 meets a tap.
  [[nodiscard]] long long place(long long t0, long long t1, long long t2) const {
    const long long y = lines.offset(t1), x = pixels.offset(t2);
    return ((t0 * lines.remainders + y % lines.axis.pace) * pixels.remainders + x % pixels.axis.pace) * part() +
           y / lines.axis.pace * pitch() + x / pixels.axis.pace;
  }
};

// Up to kLanes pixels, `step` elements apart, of whose channels `elements` are neighbours: a row of words for each
// word.
inline void turn_pixels(const Stored* from, long long step, int pixels, long long elements, float* to, long long row) {
  for (long long e = 0; e < elements; e += kChunk, from += kChunk, to += kLanes * row) {
    const int some = (int)min_of(kChunk, elements - e);
    if (kWordsAreStored && !kOffset && pixels == kLanes && some == kChunk && step % kPack == 0) {
      transpose_block(reinterpret_cast<const float*>(from), step / kPack, to, row);
      continue;
    }
    float lines[kLanes * kLanes], turned[kLanes * kLanes];
    for (int p = 0; p < kLanes; ++p) {
      if (p < pixels)
        line_to_words<true>(from + p * step, 1, some, lines + p * kLanes);
      else
        store(lines + p * kLanes, Vec{});
    }
    transpose_block(lines, kLanes, turned, kLanes);
    for (int w = 0; w < words_of(some); ++w) store(to + w * row, load(turned + w * kLanes));
  }
}

// A line of pixels of one word: of `elements` channels, `channel` apart.
inline void gather_pixels(const Stored* from, long long step, long long pixels, int elements, long long channel,
                          float* to) {
  if (kPack == 1 || (elements == kPack && channel == 1 && step == kPack))
    return line_to_words<true>(from, kPack == 1 ? step : 1, (int)pixels * kPack, to);
  for (long long p = 0; p < pixels; p += kLanes, from += kLanes * step) {
    Stored some[kChunk] = {};
    for (int l = 0; l < (int)min_of(kLanes, pixels - p); ++l)
      for (int e = 0; e < elements; ++e) some[l * kPack + e] = from[l * step + e * channel];
    words_of_chunk<true>(some, to + p);
  }
}

// What is copied.
struct Tensor {
  const Stored* first;
  const TsConvStrides& strides;
  long long channels;  // of a group
};

// Words of the channels of some groups: `words` from `word` on of one group, or all of each of several.
struct ImageWords {
  long long group, groups, word, words;

  [[nodiscard]] long long rows() const { return groups * words; }
};

// A line of `count` pixels of all of these words, from the first of them on.
inline void copy_pixels(const Tensor& tensor, const ImageWords& w, const Stored* from, long long step, long long count,
                        float* to, long long row) {
  const TsConvStrides& s = tensor.strides;
  const long long elements = min_of(w.words * kPack, tensor.channels - w.word * kPack);
  const bool joined = s.group == elements && elements % kPack == 0;  // groups' words follow one another
  if (s.channel == 1 && step != 1 && (w.words > 1 || (joined && w.groups > 1))) {
    const long long parts = joined ? 1 : w.groups;
    for (long long g = 0; g < parts; ++g)
      for (long long p = 0; p < count; p += kLanes)
        turn_pixels(from + g * s.group + p * step, step, (int)min_of(kLanes, count - p),
                    joined ? w.groups * elements : elements, to + g * w.words * row + p, row);
    return;
  }
  for (long long g = 0; g < w.groups; ++g)
    for (long long i = 0; i < w.words; ++i)
      gather_pixels(from + g * s.group + i * kPack * s.channel, step, count, (int)min_of(kPack, elements - i * kPack),
                    s.channel, to + (g * w.words + i) * row);
}

// Planes of all of these words, block.plane() apart.
inline void copy_image(const Block& block, const Tensor& tensor, const ImageWords& w, float* to) {
  const TsConvStrides& s = tensor.strides;
  const Stretch &lines = block.lines, &pixels = block.pixels;
  const Axis* const axis = block.phase.axis;
  const long long row = block.plane(), pitch = block.pitch(), step = pixels.axis.pace * s.spatial[2];
  const Stored* const image = tensor.first + block.member * s.batch + w.group * s.group + w.word * kPack * s.channel;
  const auto empty = [&](float* line, long long first, long long end) {
    for (long long r = 0; r < w.rows() && first < end; ++r) empty_words(line + r * row + first, (int)(end - first));
  };
  for (long long r = 0; r < w.rows(); ++r) store(to + (r + 1) * row - kLanes, Vec{});  // the last vector reads it
  // Upwards in each plane, as whole vectors are written.
  for (long long t0 = 0; t0 < axis[0].taps; ++t0) {
    const long long at0 = block.outer * axis[0].pace + axis[0].start + t0 * axis[0].hop;
    for (long long y = 0; y < lines.remainders; ++y)
      for (long long x = 0; x < pixels.remainders; ++x)
        for (long long l = 0; l < lines.length; ++l, to += pitch) {
          const long long at1 = lines.at(y, l), at2 = pixels.at(x, 0), pace = pixels.axis.pace;
          if (at0 < 0 || at0 >= axis[0].size || at1 < 0 || at1 >= axis[1].size) {
            empty(to, 0, pitch);
            continue;
          }
          const long long first = min_of(pitch, at2 < 0 ? blocks_of(-at2, pace) : 0);
          const long long end =
              max_of(first, min_of(pitch, at2 < axis[2].size ? blocks_of(axis[2].size - at2, pace) : 0));
          empty(to, 0, first);
          if (first < end)
            copy_pixels(tensor, w,
                        image + at0 * s.spatial[0] + at1 * s.spatial[1] + (at2 + first * pace) * s.spatial[2], step,
                        end - first, to + first, row);
          empty(to, end, pitch);
        }
  }
}
