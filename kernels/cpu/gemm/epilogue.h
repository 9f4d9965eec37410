// What happens to a rectangle of sums on its way to D: the terms the kernel was generated with, in the order gemm/abi.h
// gives. Rows are walked in vectors; at the right edge only the elements that exist are read and written.

using Output = StoredAs<kOutput>::Type;
constexpr int kGate = kGated ? 2 : 1;  // columns of sums for one of D

constexpr int even_lane(int lane, int offset) {
  return 2 * lane + offset;
}

struct Patch {
  long long batch, row, column;  // its place among the sums
  int rows, columns;
};

template <Element kType>
TS_INLINE Vec load_side(const void* tensor, long long index, int count) {
  using Type = typename StoredAs<kType>::Type;
  const Type* from = static_cast<const Type*>(tensor) + index;
  if (count >= kLanes) return load_floats<kType, kLanes>(from);
  Type buffer[kLanes];
  read_part<kLanes>(from, count, buffer);
  return load_floats<kType, kLanes>(buffer);
}

// Whether D is written past the caches, which costs less than owning each line first: when it would not stay in the
// threads' second-level caches, and whole lines of it come together.
[[maybe_unused]] TS_INLINE bool streams(const TsGemmArgs& args) {
  constexpr long long kSize = sizeof(Output), kCacheBytes = 1 << 20;
  if constexpr (kPanel / kGate * kSize % 64 != 0 || kLanes * kSize % 32 != 0) return false;
  const long long places = (long long)args.d | args.d_leading * kSize | args.d_batch * kSize;
  return places % 64 == 0 && args.batch * args.m * (args.n / kGate) * kSize >= kCacheBytes * args.threads;
}

// kLanes elements at an aligned place.
TS_INLINE void stream_output(Output* to, const Output* from) {
  constexpr int kBytes = kLanes * (int)sizeof(Output);
  if constexpr (kBytes == 64 || kBytes == 32) {
    typedef float Bytes __attribute__((vector_size(kBytes), may_alias));
    asm volatile("vmovntps %1, %0" : "=m"(*(Bytes*)to) : "v"(*(const Bytes*)from));
  }
}

TS_INLINE void store_output(Output* to, Vec x, int count, bool stream) {
  if (count >= kLanes && stream) {
    alignas(64) Output buffer[kLanes];
    store_floats<kOutput, kLanes>(buffer, x);
    return stream_output(to, buffer);
  }
  if (count >= kLanes) return store_floats<kOutput, kLanes>(to, x);
  Output buffer[kLanes];
  store_floats<kOutput, kLanes>(buffer, x);
  write_part<kLanes>(buffer, count, to);
}

// Whether nothing but alpha, C and rounding stands between sums and D.
constexpr bool kPlain = kBias == Bias::none && kActivation == Activation::none && !kGated && !kRowScale &&
                        !kColumnScale && kExtras == 0 && !kClamp && !kAmax && !kSplitK;

// `count` results of a plain kernel that reads no C: vector v of row r.
TS_INLINE void put_plain(const PlainD& d, int r, int v, Sum sum, int count) {
  Output* const to = static_cast<Output*>(d.to) + r * d.leading + v * kLanes;
  if constexpr (kInteger && kOutput == Element::int32) {
    alignas(64) Output whole[kLanes];
    store(reinterpret_cast<int*>(whole), (IVec)sum);
    if (count < kLanes) return write_part<kLanes>(whole, count, to);
    if (d.streams) return stream_output(to, whole);
    store(reinterpret_cast<int*>(to), (IVec)sum);
  } else {
    Vec x = (Vec)sum;  // of floats multiplied already
    if constexpr (kInteger) x = __builtin_convertvector((IVec)x, Vec) * d.factor;
    store_output(to, x, count, d.streams);
  }
}

// What all columns of a row share.
struct RowTerms {
  float factor;
  Vec bias;
};

TS_INLINE RowTerms row_terms(const TsGemmArgs& args, long long row) {
  RowTerms terms = {args.alpha, Vec{}};
  if constexpr (kRowScale) terms.factor *= args.row_scale[row];
  if constexpr (kBias == Bias::along_m) terms.bias = splat(load_side<kBiasType>(args.bias, row, 1)[0]);
  return terms;
}

// x of `count` columns. Without kC beta is 0.
template <bool kC>
TS_INLINE Vec linear(const TsGemmArgs& args, const Patch& patch, const RowTerms& terms, long long row, long long column,
                     const float* sums, int count) {
  Vec x = load(sums);
  if constexpr (kInteger) x = __builtin_convertvector((IVec)x, Vec);
  x = x * terms.factor;
  if constexpr (kColumnScale) x = x * load_side<Element::fp32>(args.column_scale, column, count);
  if (kC && args.beta != 0) {
    const long long index = patch.batch * args.c.batch + row * args.c.leading + column;
    x = x + args.beta * load_side<kAuxType>(args.c.data, index, count);
  }
  if constexpr (kBias == Bias::along_n) x = x + load_side<kBiasType>(args.bias, column, count);
  if constexpr (kBias == Bias::along_m) x = x + terms.bias;
  return x;
}

// `count` of D from column `column` of D.
template <bool kC>
TS_INLINE Vec outcome(const TsGemmArgs& args, const Patch& patch, const RowTerms& terms, long long row,
                      long long column, const float* sums, int count) {
  Vec y;
  if constexpr (kGated) {
    const int second = 2 * count - kLanes;  // columns of sums in the second vector
    const Vec low = linear<kC>(args, patch, terms, row, 2 * column, sums, (int)min_of(kLanes, 2 * count));
    const Vec high =
        second > 0 ? linear<kC>(args, patch, terms, row, 2 * column + kLanes, sums + kLanes, second) : Vec{};
    y = activate<kActivation>(__builtin_shufflevector(low, high, TS_LANES(even_lane, 0))) *
        __builtin_shufflevector(low, high, TS_LANES(even_lane, 1));
  } else {
    y = activate<kActivation>(linear<kC>(args, patch, terms, row, column, sums, count));
  }
#pragma GCC unroll 4
  for (int e = 0; e < kExtras; ++e) {
    const TsMatrix& extra = args.extra[e];
    const Vec x = load_side<kAuxType>(extra.data, patch.batch * extra.batch + row * extra.leading + column, count);
    y = kExtrasMultiply ? y * x : y + x;
  }
  if constexpr (kClamp) {
    y = larger(splat(args.low), y);  // a NaN stays
    y = select(y > args.high, splat(args.high), y);
  }
  return y;
}

// Asks for a patch of D before its sums are there: a line that is to be written must first be owned.
TS_INLINE void claim(const TsGemmArgs& args, const Patch& patch) {
  for (int r = 0; r < patch.rows; ++r) {
    const Output* row = static_cast<Output*>(args.d) + patch.batch * args.d_batch + (patch.row + r) * args.d_leading +
                        patch.column / kGate;
    for (int j = 0; j < patch.columns / kGate; j += 64 / (int)sizeof(Output))
      asm volatile("prefetchw %0" : : "m"(row[j]));
  }
}

// max(*amax, found), where both are the bits of numbers without sign, which order like integers; a NaN is the largest.
inline void join_amax(float* amax, int found) {
  int* to = reinterpret_cast<int*>(amax);
  int seen = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (seen < found && !__atomic_compare_exchange_n(to, &seen, found, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// Whole numbers: no term but C, and arithmetic modulo 2^32.
inline void finish_integers(const TsGemmArgs& args, const Patch& patch, const float* sums, int stride, bool stream) {
  const unsigned beta = (unsigned)(int)args.beta;
  for (int r = 0; r < patch.rows; ++r) {
    const long long row = patch.row + r;
    int* to = static_cast<int*>(args.d) + patch.batch * args.d_batch + row * args.d_leading + patch.column;
    const int* from = reinterpret_cast<const int*>(sums) + r * stride;
    if (beta == 0 && stream && patch.columns % kLanes == 0) {
      for (int j = 0; j < patch.columns; j += kLanes)
        stream_output(reinterpret_cast<Output*>(to + j), reinterpret_cast<const Output*>(from + j));
      continue;
    }
    if (beta == 0) {
      __builtin_memcpy(to, from, patch.columns * 4);
      continue;
    }
    const int* c =
        static_cast<const int*>(args.c.data) + patch.batch * args.c.batch + row * args.c.leading + patch.column;
    for (int j = 0; j < patch.columns; ++j) to[j] = (int)((unsigned)from[j] + beta * (unsigned)c[j]);
  }
}

// The largest magnitudes of a patch, if they are asked for. kWhole: it is as wide as a panel and C is not read, so that
// nothing is left to ask within a row.
template <bool kWhole>
TS_INLINE IVec finish_rows(const TsGemmArgs& args, const Patch& patch, const float* sums, int stride, bool stream) {
  IVec largest = {};
  const long long first = patch.column / kGate;
  const int columns = (kWhole ? kPanel : patch.columns) / kGate;
  for (int r = 0; r < patch.rows; ++r) {
    const long long row = patch.row + r;
    const RowTerms terms = row_terms(args, row);
    Output* to = static_cast<Output*>(args.d) + patch.batch * args.d_batch + row * args.d_leading + first;
    for (int j = 0; j < columns; j += kLanes) {
      const int count = (int)min_of(kLanes, columns - j);
      const Vec y = outcome<!kWhole>(args, patch, terms, row, first + j, sums + r * stride + kGate * j, count);
      if constexpr (kAmax) {
        constexpr IVec kNumbers = TS_LANE_NUMBERS;
        const IVec size = kNumbers < count ? (IVec)magnitude(y) : IVec{};
        largest = size > largest ? size : largest;
      }
      store_output(to + j, y, count, stream);
    }
  }
  return largest;
}

// `sums` has `stride` columns a row and may be read up to 2 kLanes beyond its end. `stream`: see streams().
[[gnu::noinline]] void finish(const TsGemmArgs& args, const Patch& patch, const float* sums, int stride,
                              bool stream = false) {
  if constexpr (kInteger && kOutput == Element::int32) {
    finish_integers(args, patch, sums, stride, stream);
  } else {
    const bool whole = kPanel / kGate % kLanes == 0 && patch.columns == kPanel && args.beta == 0;
    const IVec largest = whole ? finish_rows<true>(args, patch, sums, stride, stream)
                               : finish_rows<false>(args, patch, sums, stride, stream);
    if constexpr (kAmax) {
      int found = 0;
      for (int l = 0; l < kLanes; ++l) found = largest[l] > found ? largest[l] : found;
      join_amax(args.amax, found);
    }
  }
}
