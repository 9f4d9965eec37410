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
// Of folded taps, lines of the image are copied once for all pixels of a line of the result, if that has so many.
constexpr int kLeastLine = 8;
constexpr int kMostLines = kFewRows / kLeastLine + 2;
constexpr int kLineWords = kFewRows * kTileK + kMostLines * (kTileK + 2 * kLanes * kMaxSegmentsInPlace) + kTileK;

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
  int lines, line[kFewRows + 1];  // how many lines they are of; the first row of each, and the end
  long long moved;                // from the image to the copy in which rows are read in place
};

// Those of rows first_row .. first_row + count - 1 of a phase, a line of pixels at a time.
inline void find_rows(const TsConvArgs& args, const Phase& phase, long long group, long long first_row, int count,
                      RowPlaces& to) {
  const TsConvStrides& from = image_strides(args);
  Place place(phase, first_row);
  to.lines = 0;
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
    to.line[to.lines++] = r;
    for (int j = 0; j < run; ++j) {
      to.at[0][r + j] = at[0];
      to.at[1][r + j] = at[1];
      to.at[2][r + j] = at[2] + j * pace;
      to.image[r + j] = image + j * pace * from.spatial[2];
    }
    r += run;
    place.advance(phase, run);
  }
  to.line[to.lines] = count;
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

// Elements first .. first + count - 1 of a line of the image with all its channels, of which there are `size`, as
// words; zeros beside it.
inline void span_to_words(const Stored* from, const ChannelLine& line, long long first, int count, long long size,
                          float* to) {
  const bool dense = line.even && line.step == 1;
  for (int i = 0; i < count; i += kChunk, to += kLanes) {
    const long long at = first + i;
    if (dense && at >= 0 && at + kChunk <= size) {
      words_of_chunk<true>(from + at, to);
      continue;
    }
    const int begin = (int)min_of(kChunk, max_of(0, -at)), end = (int)max_of(begin, min_of(kChunk, size - at));
    if constexpr (kWordsAreStored && kLoadsParts) {
      if (dense) {
        store(to, raised<true>(load_between(from + at, begin, end)));
        continue;
      }
    }
    Stored some[kChunk] = {};
    if (begin < end) line.copy(from, at + begin, end - begin, some + begin);
    words_of_chunk<true>(some, to);
  }
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
  long long size = image_channels(args);
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

// Lanes that are not 0 where a pair of bf16 has an infinite number or a NaN, whose product with zero is not zero: an
// exponent of ones overflows.
TS_INLINE UVec not_finite(UVec pair) {
  return ((pair & 0x7f807f80u) + 0x00800080u) & 0x80008000u;
}
TS_INLINE bool is_zero(UVec x) {
  unsigned lanes[kLanes], any = 0;
  store(reinterpret_cast<int*>(lanes), (IVec)x);
  for (const unsigned lane : lanes) any |= lane;
  return any == 0;
}

// Whether all of that, and what a tile may read behind it, is finite.
template <class V = UVec>
inline bool bears_zeros(const Call& args, const Phase& phase, const RowPlaces& rows, int count) {
  const Part part = part_met(args, phase, rows, count);
  const long long end = part.count + min_of(part.behind, kChunk);
  V found = {};
  for (long long i = 0; i < end; i += kChunk)
    found |= not_finite((V)load_part(part.first + i, (int)min_of(kChunk, end - i)));
  return part.count > 0 && is_zero(found);
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
  bool by_lines;          // lines of folded taps are copied once for all rows of theirs
  long long last_inside;  // of folded taps, the last pixel whose line ends inside the image

  ImageRows(const Call& call, const Phase& its, long long tap_words, RowPlaces& rows, int count,
            [[maybe_unused]] Stored* copy)
      : args(call), phase(its), line(call.line(image_strides(call))) {
    const long long segments = phase.taps * tap_words <= kTileK ? phase.taps : (kTileK - 2) / max_of(1, tap_words) + 2;
    const bool dense = kReadsImage && line.step == 1 && line.even && segments <= kMaxSegmentsInPlace;
    // What fills the last word, or tile, is multiplied with zeros, which integers bear, and what is finite. Of folded
    // taps floats alone are read in place.
    const bool filled = kInteger || image_channels(args) % (kPack * kStep) == 0;
    in_place = dense && (args.folded > 0 ? kPack == 1 : filled || bears_filling(args, phase, rows, count));
    // Where lines overlap, a copy of all is no larger than copies of each.
    by_lines = args.folded > 0 && !in_place && segments <= kMaxSegmentsInPlace && phase.axis[2].count >= kLeastLine &&
               segments * phase.axis[2].pace * args.folded <= kTileK * kPack;
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
      bring_part(rows, r, segment, reinterpret_cast<const Stored*>(to[r]), copy);
      to[r] = copy;
    }
    for (int r = count; r < count + kRows; ++r) to[r] = row_of_zeros();
  }

  // The words of a block's segments in lines that are copied, once for all rows of a line, with zeros beside the image:
  // rows' words lie as far apart as their pixels. False where what fills a word or a tile is not finite.
  bool place_lines(const RowPlaces& rows, int count, const Segment* segments, int number, const float** table,
                   float* lines, float* copies) const {
    const TsConvStrides& s = image_strides(args);
    const long long step = phase.axis[2].pace * args.folded * 4 / kPack;  // bytes
    float* end = lines;
    for (int i = 0; i < number; ++i, table += kPlaces) {
      const Segment& segment = segments[i];
      for (int l = 0; l < rows.lines; ++l) {
        const int r = rows.line[l], run = rows.line[l + 1] - r;
        const long long pixel = rows.at[2][r];
        const auto outside = [&](int d) {
          return (unsigned long long)(rows.at[d][r] + segment.offset[d]) >= (unsigned long long)phase.axis[d].size;
        };
        const int elements = (int)((run - 1) * phase.axis[2].pace * args.folded) + segment.words * kPack;
        if (outside(0) || outside(1))
          empty_words(end, words_of(elements));
        else
          span_to_words(rows.image[r] - pixel * s.spatial[2] + segment.offset[0] * s.spatial[0] +
                            segment.offset[1] * s.spatial[1],
                        line, (pixel + segment.offset[2]) * args.folded + segment.channel, elements,
                        args.x_size[2] * args.folded, end);
        for (int j = 0; j < run; ++j)
          table[r + j] = reinterpret_cast<const float*>(reinterpret_cast<const char*>(end) + j * step);
        end += round_up(words_of(elements), kLanes);
      }
      if constexpr (kTiles)
        even_tiles(rows, count, step, segment, table, copies);
      else
        for (int r = count; r < count + kRows; ++r) table[r] = row_of_zeros();
    }
    return fills_with_finite(lines, end);
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
  // Whether what fills the last word, or tile, of copied lines may be multiplied with zeros.
  template <class V = UVec>
  bool fills_with_finite(const float* from, const float* end) const {
    if constexpr (kElement != Element::bf16 || kPack == 1) return true;
    if (image_channels(args) % (kPack * kStep) == 0) return true;
    V found = {};
    for (; from < end; from += kLanes) found |= not_finite((V)load(from));
    return is_zero(found);
  }

  // Tiles whose rows are of several lines are copied row by row.
  static void even_tiles(const RowPlaces& rows, int count, long long step, const Segment& segment, const float** table,
                         float* copies) {
    int l = 0;
    for (int first = 0; first < count; first += kTileRows) {
      const int end = (int)min_of(first + kTileRows, count);
      while (rows.line[l + 1] <= first) ++l;
      if (end <= rows.line[l + 1]) {
        table[first + 1] = reinterpret_cast<const float*>(reinterpret_cast<const char*>(table[first]) + step);
        continue;
      }
      for (int r = first; r < first + kTileRows; ++r) {
        float* const copy = copies + r * kRowWords + segment.at;
        for (int i = 0; r < end && i < segment.words; i += kLanes) store(copy + i, load(table[r] + i));
        table[r] = copy;
      }
    }
  }

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
      if (last < count && are_even(to + first) && reinterpret_cast<const char*>(to[last] + segment.words) <= end)
        continue;
      for (int r = first; r <= last; ++r) {
        float* const copy = copies + r * kRowWords + segment.at;
        const auto* const found = reinterpret_cast<const Stored*>(to[r]);
        if (r < count) copy_line(found, segment, copy);
        to[r] = copy;
      }
    }
  }

  // Behind the image's last element.
  [[nodiscard]] const char* end_of_image() const {
    const TsConvStrides& s = image_strides(args);
    long long last = (args.batch - 1) * s.batch + (args.groups - 1) * s.group + (image_channels(args) - 1) * s.channel;
    for (int d = 0; d < 3; ++d) last += (phase.axis[d].size - 1) * s.spatial[d];
    return reinterpret_cast<const char*>(static_cast<const Stored*>(kForward ? args.x : args.y) + last + 1);
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
