// What pixels of the result meet in the image, as rows of words: a block of (tap, channel) at a time, read as they lie
// or copied.

constexpr int kFewRows = 3 * kTileM;  // of a task at most
constexpr int kMaxSegments = kTileK;  // a block of single words

// Rows of the image whose elements as they lie are the words need not be copied, where a block has few segments. With
// kOffset they lie in a copy of the part of the image that a task meets, which is not made for each tap. AMX tiles read
// sixteen rows in place where those are evenly apart, and not so far that they compete for few sets of the first-level
// cache.
constexpr bool kReadsImage = kWordsAreStored;
constexpr int kTileRows = 16;
constexpr long long kMostApart = 1024;  // bytes
constexpr int kMaxSegmentsInPlace = 17;
constexpr int kPlaces = kFewRows + kRows;         // of a segment, with the rows that fill up a strip
constexpr int kMostRaised = kOffset ? 65536 : 0;  // elements of such a copy

struct RowOfZeros {
  alignas(64) unsigned words[kTileK];

  constexpr RowOfZeros() : words() {
    for (unsigned& word : words) word = kOffset ? 0x80808080u : 0;
  }
};
constexpr RowOfZeros kZeros;
TS_INLINE const float* row_of_zeros() {
  return reinterpret_cast<const float*>(kZeros.words);
}

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
  long long moved;  // from the image to the copy in which rows are read in place
};

TS_INLINE const TsConvStrides& image_strides(const TsConvArgs& args) {
  return kForward ? args.x_strides : args.y_strides;
}

// Those of rows first_row .. first_row + count - 1 of a phase, a line of pixels at a time.
inline void find_rows(const TsConvArgs& args, const Phase& phase, long long group, long long first_row, int count,
                      RowPlaces& to) {
  const TsConvStrides& from = image_strides(args);
  Place place(phase, first_row);
  for (int r = 0; r < count;) {
    const int run = (int)min_of(count - r, phase.axis[2].count - place.i[2]);
    const Stored* image =
        static_cast<const Stored*>(kForward ? args.x : args.y) + place.member * from.batch + group * from.group;
    long long at[3];
    for (int d = 0; d < 3; ++d) {
      at[d] = place.i[d] * phase.axis[d].pace;
      image += at[d] * from.spatial[d];
    }
    const long long pace = phase.axis[2].pace;
    for (int j = 0; j < run; ++j) {
      to.at[0][r + j] = at[0];
      to.at[1][r + j] = at[1];
      to.at[2][r + j] = at[2] + j * pace;
      to.image[r + j] = image + j * pace * from.spatial[2];
    }
    r += run;
    place.advance(phase, run);
  }
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
  if constexpr (kWordsAreStored && kLoadsParts) {
    if (line.even && line.step == 1) {
      for (int i = 0; i < count; i += kChunk) {
        const auto within = [&](long long at) { return (int)min_of(kChunk, max_of(0, at - i)); };
        store(to + i / kPack, raised<true>(load_between(from + channel + i, within(part.first), within(part.end))));
      }
      return;
    }
  }
  Stored some[kTileK * kPack];
  for (int i = 0; i < count; i += kChunk) __builtin_memset(some + i, 0, kChunk * sizeof(Stored));
  line.copy(from, channel + part.first, (int)(part.end - part.first), some + part.first);
  line_to_words<true>(some, 1, count, to);
}

// Elements of the image.
struct Part {
  const Stored* first;
  long long count, behind;  // behind them are so many more
};

// What the rows of a task meet of the image, from the first element to the last. Nothing where the image has gaps, or
// that is more than the rows' words.
inline Part part_met(const Call& args, const Phase& phase, const RowPlaces& rows, int count) {
  const TsConvStrides& s = image_strides(args);
  const Stored* const image = static_cast<const Stored*>(kForward ? args.x : args.y);
  long long size = args.folded > 0 ? args.folded : image_channels(args);
  bool dense = args.groups == 1 && s.channel == 1;
  for (int d = 2; d >= 0; --d) {
    dense = dense && (phase.axis[d].size == 1 || s.spatial[d] == size);
    size *= phase.axis[d].size;
  }
  if (!dense || (args.batch > 1 && s.batch != size)) return {};
  size *= args.batch;
  const Stored *lowest = rows.image[0], *highest = lowest;
  for (int r = 1; r < count; ++r) {
    lowest = rows.image[r] < lowest ? rows.image[r] : lowest;
    highest = rows.image[r] > highest ? rows.image[r] : highest;
  }
  long long first = lowest - image, end = highest - image + image_channels(args);
  for (int d = 0; d < 3; ++d) {
    const Axis& axis = phase.axis[d];
    const long long reach = (axis.taps - 1) * axis.hop;
    first += (axis.start + min_of(0, reach)) * s.spatial[d];
    end += (axis.start + max_of(0, reach)) * s.spatial[d];
  }
  first = max_of(first, 0);
  end = min_of(end, size);
  if (first >= end || end - first > count * phase.taps * image_channels(args)) return {};
  return {image + first, end - first, size - end};
}

// Copies that and adds 128 to each element: they stay as far apart as they are. False where it is nothing or too much.
inline bool raise_image(const Call& args, const Phase& phase, RowPlaces& rows, int count, Stored* copy) {
  const Part part = part_met(args, phase, rows, count);
  if (part.count == 0 || part.count > kMostRaised) return false;
  line_to_words<true>(part.first, 1, (int)part.count, reinterpret_cast<float*>(copy));
  rows.moved = reinterpret_cast<long long>(copy) - reinterpret_cast<long long>(part.first);
  return true;
}

// Whether all of that, and what a tile may read behind it, is bf16 whose product with zero is zero: neither infinite
// nor NaN.
template <class V = UVec>
inline bool bears_zeros(const Call& args, const Phase& phase, const RowPlaces& rows, int count) {
  const Part part = part_met(args, phase, rows, count);
  const long long end = part.count + min_of(part.behind, kChunk);
  V found = {};
  for (long long i = 0; i < end; i += kChunk) {
    const V pair = (V)load_part(part.first + i, (int)min_of(kChunk, end - i));
    found |= ((pair & 0x7f807f80u) + 0x00800080u) & 0x80008000u;  // an exponent of ones overflows
  }
  unsigned lanes[kLanes], any = 0;
  store(reinterpret_cast<int*>(lanes), (IVec)found);
  for (const unsigned lane : lanes) any |= lane;
  return part.count > 0 && any == 0;
}

inline bool bears_filling(const Call& args, const Phase& phase, const RowPlaces& rows, int count) {
  if constexpr (kTiles && kElement == Element::bf16)
    return bears_zeros(args, phase, rows, count);
  else
    return false;
}

// How the rows of a phase are brought.
struct ImageRows {
  const Call& args;
  const Phase& phase;
  ChannelLine line;
  bool in_place;          // the image's words are read as they lie
  long long last_inside;  // of folded taps, the last pixel whose line ends inside the image

  ImageRows(const Call& call, const Phase& its, long long tap_words, RowPlaces& rows, int count,
            [[maybe_unused]] Stored* copy)
      : args(call), phase(its), line(call.line(image_strides(call))) {
    // What fills the last word, or tile, is multiplied with zeros, which integers bear, and what is finite.
    const long long segments = phase.taps * tap_words <= kTileK ? phase.taps : (kTileK - 2) / max_of(1, tap_words) + 2;
    in_place = kReadsImage && line.step == 1 && line.even && segments <= kMaxSegmentsInPlace &&
               (kInteger || (image_channels(args) % (kPack * kStep) == 0 && (!kTiles || args.folded == 0)) ||
                bears_filling(args, phase, rows, count));
    last_inside = args.folded > 0 ? args.x_size[2] - args.c / args.folded : 0;
    rows.moved = 0;
    if constexpr (kOffset) in_place = in_place && raise_image(args, phase, rows, count, copy);
  }

  // Where a segment of each row begins in the image, `moved` bytes further; outside the image, `outside`. Of folded
  // taps the innermost coordinate does not count: their lines may end beyond the image.
  void find(const RowPlaces& rows, int count, const Segment& segment, long long moved, const void* outside,
            const void** to) const {
    const auto size = [&](int d) { return (unsigned long long)phase.axis[d].size; };
    const unsigned long long size0 = size(0), size1 = size(1), size2 = size(2);
    const bool folded = args.folded > 0;
    const long long elements = segment.place + (args.folded > 0 && line.even ? segment.channel * line.step : 0);
    const long long place = elements * (long long)sizeof(Stored) + moved;
    for (int r = 0; r < count; ++r) {
      const bool met = ((unsigned long long)(rows.at[0][r] + segment.offset[0]) < size0) &
                       ((unsigned long long)(rows.at[1][r] + segment.offset[1]) < size1) &
                       (folded | ((unsigned long long)(rows.at[2][r] + segment.offset[2]) < size2));
      to[r] = met ? reinterpret_cast<const char*>(rows.image[r]) + place : outside;
    }
  }

  // The words of a segment, for each row where they lie: in the image or what was copied of it, or in `copies`.
  void place(const RowPlaces& rows, int count, const Segment& segment, const float** to, float* copies) const {
    if constexpr (kTiles) return place_tiles(rows, count, segment, to, copies);
    find(rows, count, segment, rows.moved, row_of_zeros(), reinterpret_cast<const void**>(to));
    for (int r = 0; args.folded > 0 && r < count; ++r) {
      if (is_inside(rows, r, segment) || to[r] == row_of_zeros()) continue;
      float* const copy = copies + r * kRowWords + segment.at;
      const char* const found = reinterpret_cast<const char*>(to[r]) - rows.moved;
      bring_part(rows, r, segment, reinterpret_cast<const Stored*>(found), copy);
      to[r] = copy;
    }
    for (int r = count; r < count + kRows; ++r) to[r] = row_of_zeros();
  }

  // Copies a segment of each row.
  void copy(const RowPlaces& rows, int count, const Segment& segment, float* copies) const {
    const void* places[kFewRows];
    find(rows, count, segment, 0, nullptr, places);
    const auto* const found = reinterpret_cast<const Stored* const*>(places);
    float* to = copies + segment.at;
    if (line.even && line.step == 1) {
      for (int r = 0; r < count; ++r, to += kRowWords)
        if (found[r] == nullptr || is_inside(rows, r, segment))
          copy_line(found[r], segment, to);
        else
          bring_part(rows, r, segment, found[r], to);
      return;
    }
    for (int r = 0; r < count; ++r, to += kRowWords) {
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
  // A line of neighbours, or of zeros for null.
  static void copy_line(const Stored* from, const Segment& segment, float* to) {
    if (from == nullptr)
      empty_words(to, segment.words);
    else
      line_to_words<true>(from, 1, segment.elements, to);
  }

  // Whether the rows of a tile are in the image and evenly apart.
  static bool are_even(const float* const* rows) {
    if (rows[0] == nullptr || rows[1] == nullptr) return false;
    const auto apart = [&](int r) {
      return reinterpret_cast<long long>(rows[r]) - reinterpret_cast<long long>(rows[r - 1]);
    };
    const long long step = apart(1);
    bool even = step >= 0 && step <= kMostApart;
    for (int r = 2; r < kTileRows; ++r) even &= apart(r) == step;
    return even;
  }

  // As above, for AMX: all rows of a tile evenly apart, in the image or in `copies`.
  void place_tiles(const RowPlaces& rows, int count, const Segment& segment, const float** to, float* copies) const {
    find(rows, count, segment, 0, nullptr, reinterpret_cast<const void**>(to));
    const char* const end = end_of_image();
    for (int first = 0; first < count; first += kTileRows) {
      const int last = first + kTileRows - 1;
      if (last < count && are_even(to + first) && are_inside(rows, first, last, segment) &&
          reinterpret_cast<const char*>(to[last] + segment.words) <= end)
        continue;
      for (int r = first; r <= last; ++r) {
        float* const copy = copies + r * kRowWords + segment.at;
        const auto* const found = reinterpret_cast<const Stored*>(to[r]);
        if (r < count && (found == nullptr || !bring_part(rows, r, segment, found, copy)))
          copy_line(found, segment, copy);
        to[r] = copy;
      }
    }
  }

  // Behind the image's last element.
  [[nodiscard]] const char* end_of_image() const {
    const TsConvStrides& s = image_strides(args);
    long long last = (args.batch - 1) * s.batch + (args.groups - 1) * s.group +
                     ((args.folded > 0 ? args.folded : image_channels(args)) - 1) * s.channel;
    for (int d = 0; d < 3; ++d) last += (phase.axis[d].size - 1) * s.spatial[d];
    return reinterpret_cast<const char*>(static_cast<const Stored*>(kForward ? args.x : args.y) + last + 1);
  }

  // Whether lines of folded taps end inside the image: those of rows of one line, as those beyond its end may be as far
  // apart.
  [[nodiscard]] bool are_inside(const RowPlaces& rows, int first, int last, const Segment& segment) const {
    if (args.folded == 0) return true;
    return rows.at[2][last] - rows.at[2][first] == (last - first) * phase.axis[2].pace &&
           is_inside(rows, first, segment) && is_inside(rows, last, segment);
  }

  // Whether the line of folded taps of a row ends inside the image.
  [[nodiscard]] TS_INLINE bool is_inside(const RowPlaces& rows, int r, const Segment& segment) const {
    const long long first = rows.at[2][r] + segment.offset[2];
    return args.folded == 0 || (first >= 0 && first <= last_inside);
  }

  // Of a line of folded taps that ends beyond the image, what is inside; false where it does not.
  bool bring_part(const RowPlaces& rows, int r, const Segment& segment, const Stored* from, float* to) const {
    if (is_inside(rows, r, segment)) return false;
    const long long first = rows.at[2][r] + segment.offset[2];
    inner_part_to_words(from, line, line.even ? 0 : segment.channel,
                        args.inside(first, segment.channel, segment.elements), segment.elements, to);
    return true;
  }
};
