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
    in_place =
        kReadsImage && line.step == 1 && line.even && tap_words >= kWordsInPlace && image_channels(args) % kPack == 0;
  }

  // Where a segment of each row begins in the image; null outside it. Of folded taps the innermost coordinate does not
  // count: their lines may end beyond the image.
  void find(const RowPlaces& rows, int count, const Segment& segment, const Stored** to) const {
    const auto size = [&](int d) { return (unsigned long long)phase.axis[d].size; };
    const unsigned long long size0 = size(0), size1 = size(1), size2 = size(2);
    const bool folded = args.folded > 0;
    const long long place = segment.place + (args.folded > 0 && line.even ? segment.channel * line.step : 0);
    for (int r = 0; r < count; ++r) {
      const bool met = ((unsigned long long)(rows.at[0][r] + segment.offset[0]) < size0) &
                       ((unsigned long long)(rows.at[1][r] + segment.offset[1]) < size1) &
                       (folded | ((unsigned long long)(rows.at[2][r] + segment.offset[2]) < size2));
      to[r] = met ? rows.image[r] + place : nullptr;
    }
  }

  // The words of a segment, for each row where they lie: in the image, or in `copies`.
  void place(const RowPlaces& rows, int count, const Segment& segment, const float** to, float* copies) const {
    const Stored* found[kFewRows];
    find(rows, count, segment, found);
    for (int r = 0; r < count; ++r) {
      float* const copy = copies + r * kRowWords + segment.at;
      if (found[r] == nullptr)
        to[r] = kZeroRow;
      else
        to[r] = bring_part(rows, r, segment, found[r], copy) ? copy : reinterpret_cast<const float*>(found[r]);
    }
    for (int r = count; r < count + kRows; ++r) to[r] = kZeroRow;
  }

  // Copies a segment of each row.
  void copy(const RowPlaces& rows, int count, const Segment& segment, float* copies) const {
    const Stored* found[kFewRows];
    find(rows, count, segment, found);
    for (int r = 0; r < count; ++r) {
      float* const to = copies + r * kRowWords + segment.at;
      if (found[r] == nullptr)
        empty_words(to, segment.words);
      else if (bring_part(rows, r, segment, found[r], to))
        continue;
      else if (line.even)
        line_to_words<true>(found[r], line.step, segment.elements, to);
      else
        part_of_line<true>(found[r], line, segment.channel, segment.elements, to);
    }
  }

 private:
  // Of a line of folded taps that ends beyond the image, what is inside; false where it does not.
  bool bring_part(const RowPlaces& rows, int r, const Segment& segment, const Stored* from, float* to) const {
    if (args.folded == 0) return false;
    const long long first = rows.at[2][r] + segment.offset[2];
    if (first >= 0 && first * args.folded + args.c <= args.x_size[2] * args.folded) return false;
    inner_part_to_words(from, line, line.even ? 0 : segment.channel,
                        args.inside(first, segment.channel, segment.elements), segment.elements, to);
    return true;
  }
};
