// What pixels of the result meet in the image, as rows of words: a block of (tap, channel) at a time, read as they lie
// or copied.

constexpr int kFewRows = 3 * kTileM;  // of a task at most
constexpr int kMaxSegments = kTileK;  // a block of single words

// Rows of the image whose elements as they lie are the words need not be copied, where a tap has enough of them.
constexpr bool kReadsImage = kWordsAreStored && !kOffset && !kTiles;
constexpr int kWordsInPlace = 16;
constexpr int kMaxSegmentsInPlace = kTileK / kWordsInPlace + 1;
constexpr int kPlaces = kFewRows + kRows;  // of a segment, with the rows that fill up a strip
alignas(64) constexpr float kZeroRow[kTileK] = {};

// A run of channels of one tap in a block.
struct Segment {
  long long offset[3];  // of the image's pixel from the row's
  long long place;      // of its elements from the row's
  long long channel;
  long long tap, word;  // where its weights are
  int elements, at, words;
};

// The pixels of the result as the image sees them, at a tap without offset.
struct RowPlaces {
  long long at[3][kFewRows];
  const Stored* image[kFewRows];
};

TS_INLINE const TsConvStrides& image_strides(const TsConvArgs& args) {
  return kForward ? args.x_strides : args.y_strides;
}

// The segments of words first .. first + count - 1 of the phase's (tap, channel) words.
inline int cut(const Call& args, const Phase& phase, long long tap_words, long long first, int count,
               Segment* segments) {
  const TsConvStrides& strides = image_strides(args);
  int number = 0;
  for (int at = 0; at < count;) {
    Segment& s = segments[number++];
    long long rest = (first + at) / tap_words, filter = 1;
    s.word = (first + at) % tap_words;
    s.tap = 0;
    s.channel = s.word * kPack;
    s.place = args.folded > 0 ? 0 : s.channel * strides.channel;
    for (int d = 2; d >= 0; --d) {
      const Axis& axis = phase.axis[d];
      const long long j = rest % axis.taps;
      rest /= axis.taps;
      s.offset[d] = axis.start + j * axis.hop;
      s.place += s.offset[d] * strides.spatial[d];
      s.tap += (axis.tap_first + j * axis.tap_step) * filter;
      filter *= args.filter[d];
    }
    s.words = (int)min_of(tap_words - s.word, count - at);
    s.elements = (int)min_of(s.words * kPack, image_channels(args) - s.channel);
    s.at = at;
    at += s.words;
  }
  return number;
}

// The part of a line that lies inside the image, and zeros beside it.
inline void inner_part_to_words(const Stored* from, const ChannelLine& line, long long channel, Call::Part part,
                                int count, float* to) {
  if (part.first >= part.end) return empty_words(to, words_of(count));
  Stored some[kTileK * kPack] = {};
  for (long long e = part.first; e < part.end; ++e) some[e] = from[line.at(channel + e)];
  line_to_words<true>(some, 1, count, to);
}

// How the rows of a phase are brought.
struct ImageRows {
  const Call& args;
  const Phase& phase;
  ChannelLine line;
  bool in_place;  // the image's words are read as they lie

  ImageRows(const Call& call, const Phase& its, long long tap_words)
      : args(call), phase(its), line(call.line(image_strides(call))) {
    in_place = kReadsImage && line.step == 1 && line.even && tap_words >= kWordsInPlace &&
               image_channels(args) % kPack == 0;
  }

  [[nodiscard]] TS_INLINE bool inside(const RowPlaces& rows, int r, const Segment& segment, int d) const {
    return (unsigned long long)(rows.at[d][r] + segment.offset[d]) < (unsigned long long)phase.axis[d].size;
  }

  // Of folded taps: all lines of a row begin at the same pixel of the innermost coordinate.
  [[nodiscard]] long long first_of_line(const RowPlaces& rows, int r, const Segment& segment) const {
    return rows.at[2][r] + segment.offset[2];
  }
  [[nodiscard]] bool is_whole(long long first) const {
    return first >= 0 && first * args.folded + args.c <= args.x_size[2] * args.folded;
  }
  void bring_inner_part(const RowPlaces& rows, int r, const Segment& segment, float* to) const {
    const long long first = first_of_line(rows, r, segment);
    inner_part_to_words(rows.image[r] + segment.place, line, segment.channel,
                        args.inside(first, segment.channel, segment.elements), segment.elements, to);
  }

  // Where a segment's words of each row are; of lines that end beyond the image copies in `copies`.
  void find(const RowPlaces& rows, int count, const Segment& segment, const float** to, float* copies) const {
    const long long size0 = phase.axis[0].size, size1 = phase.axis[1].size, size2 = phase.axis[2].size;
    if (args.folded > 0) {
      for (int r = 0; r < count; ++r) {
        float* const copy = copies + r * kRowWords + segment.at;
        const Stored* const from = rows.image[r] + segment.place;
        if (!inside(rows, r, segment, 0) || !inside(rows, r, segment, 1)) {
          to[r] = kZeroRow;
        } else if (is_whole(first_of_line(rows, r, segment))) {
          to[r] = reinterpret_cast<const float*>(from + segment.channel);
        } else {
          bring_inner_part(rows, r, segment, copy);
          to[r] = copy;
        }
      }
    } else {
      for (int r = 0; r < count; ++r) {
        const bool met = ((unsigned long long)(rows.at[0][r] + segment.offset[0]) < (unsigned long long)size0) &
                         ((unsigned long long)(rows.at[1][r] + segment.offset[1]) < (unsigned long long)size1) &
                         ((unsigned long long)(rows.at[2][r] + segment.offset[2]) < (unsigned long long)size2);
        to[r] = met ? reinterpret_cast<const float*>(rows.image[r] + segment.place) : kZeroRow;
      }
    }
    for (int r = count; r < count + kRows; ++r) to[r] = kZeroRow;
  }

  // Brings all segments of one row.
  void bring(const RowPlaces& rows, int r, const Segment* segments, int count, float* to) const {
    const bool folded = args.folded > 0, whole = folded && is_whole(first_of_line(rows, r, segments[0]));
    for (int s = 0; s < count; ++s) {
      const Segment& segment = segments[s];
      float* const words = to + segment.at;
      const Stored* const from = rows.image[r] + segment.place;
      if (!inside(rows, r, segment, 0) || !inside(rows, r, segment, 1) || (!folded && !inside(rows, r, segment, 2)))
        empty_words(words, segment.words);
      else if (!folded)
        line_to_words<true>(from, line.step, segment.elements, words);
      else if (whole)
        part_of_line<true>(from, line, segment.channel, segment.elements, words);
      else
        bring_inner_part(rows, r, segment, words);
    }
  }
};
