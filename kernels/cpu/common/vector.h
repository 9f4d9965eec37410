// What every instruction set shares: loads, stores, selection and the transpose of one square block of 32-bit words.
// `Vec` (float), `IVec` (int) and `UVec` (unsigned) have kLanes lanes; unaligned twins exist for loads and stores only.

#define TS_INLINE [[gnu::always_inline, maybe_unused]] inline  // no kernel uses every helper

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int IVec __attribute__((vector_size(4 * kLanes)));
typedef unsigned UVec __attribute__((vector_size(4 * kLanes)));
typedef unsigned long long WideVec __attribute__((vector_size(4 * kLanes)));
typedef float LooseVec __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef int LooseIVec __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr long long min_of(long long a, long long b) {
  return a < b ? a : b;
}
constexpr long long max_of(long long a, long long b) {
  return a > b ? a : b;
}

TS_INLINE Vec load(const float* from) {
  return *reinterpret_cast<const LooseVec*>(from);
}
TS_INLINE IVec load(const int* from) {
  return *reinterpret_cast<const LooseIVec*>(from);
}
TS_INLINE void store(float* to, Vec x) {
  *reinterpret_cast<LooseVec*>(to) = x;
}
TS_INLINE void store(int* to, IVec x) {
  *reinterpret_cast<LooseIVec*>(to) = x;
}
TS_INLINE Vec splat(float x) {
  return x - Vec{};
}
TS_INLINE IVec splat(int x) {
  return x + IVec{};
}
TS_INLINE UVec splat(unsigned x) {
  return x + UVec{};
}

constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;

// Lane l of the result: of a where bit `step` of l is clear and of b, `step` lanes earlier, where it is set; and the
// converse.
constexpr int lower_lane(int lane, int step) {
  return (lane & step) == 0 ? lane : kLanes + lane - step;
}
constexpr int upper_lane(int lane, int step) {
  return (lane & step) == 0 ? lane + step : kLanes + lane;
}

// The two halves of an exchange, written as constant shuffles because both compilers turn those into single
// instructions.
#define TS_LANES_8(f, s) f(0, s), f(1, s), f(2, s), f(3, s), f(4, s), f(5, s), f(6, s), f(7, s)
#define TS_LANES_16(f, s) TS_LANES_8(f, s), f(8, s), f(9, s), f(10, s), f(11, s), f(12, s), f(13, s), f(14, s), f(15, s)
#define TS_LANES_32(f, s)                                                                                      \
  TS_LANES_16(f, s), f(16, s), f(17, s), f(18, s), f(19, s), f(20, s), f(21, s), f(22, s), f(23, s), f(24, s), \
      f(25, s), f(26, s), f(27, s), f(28, s), f(29, s), f(30, s), f(31, s)

// One of the log2(kLanes) exchange steps of a transpose.
template <int kStep>
TS_INLINE void exchange(Vec (&row)[kLanes]) {
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) {
    if ((r & kStep) != 0) continue;
    const Vec a = row[r], b = row[r + kStep];
    row[r] = __builtin_shufflevector(a, b, TS_LANES(lower_lane, kStep));
    row[r + kStep] = __builtin_shufflevector(a, b, TS_LANES(upper_lane, kStep));
  }
}

TS_INLINE void transpose(Vec (&row)[kLanes]) {
  exchange<1>(row);
  exchange<2>(row);
  exchange<4>(row);
  if constexpr (kLanes == 16) exchange<8>(row);
}

// The transpose of a kLanes x kLanes block of words: to[c * to_stride + r] = from[r * from_stride + c].
inline void transpose_block(const float* from, long long from_stride, float* to, long long to_stride) {
  Vec row[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) row[r] = load(from + r * from_stride);
  transpose(row);
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) store(to + r * to_stride, row[r]);
}

// The sums of neighbouring lanes (`kStep` apart) of two vectors, a's in the lanes where bit kStep is clear.
template <int kStep, class V>
TS_INLINE V fold(V a, V b) {
  return __builtin_shufflevector(a, b, TS_LANES(lower_lane, kStep)) +
         __builtin_shufflevector(a, b, TS_LANES(upper_lane, kStep));
}
