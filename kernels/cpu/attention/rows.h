// Rows of tensors of any length, for kernels that know head dimensions at run time alone.

using Stored = StoredAs<kElement>::Type;
using Output = StoredAs<kOutput>::Type;

TS_INLINE long long whole_vectors(long long count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

// A row as floats times `scale`, and zeros up to a whole vector.
template <Element kType = kElement>
inline void read_row(const typename StoredAs<kType>::Type* from, long long count, float scale, float* to) {
  long long c = 0;
  for (; c + kLanes <= count; c += kLanes) store(to + c, load_floats<kType, kLanes>(from + c) * scale);
  if (c == count) return;
  typename StoredAs<kType>::Type rest[kLanes] = {};
  for (long long i = c; i < count; ++i) rest[i - c] = from[i];
  store(to + c, load_floats<kType, kLanes>(rest) * scale);
}

inline void write_row(const float* from, long long count, Output* to) {
  long long c = 0;
  for (; c + kLanes <= count; c += kLanes) store_floats<kOutput, kLanes>(to + c, load(from + c));
  if (c == count) return;
  Output rest[kLanes];
  store_floats<kOutput, kLanes>(rest, load(from + c));
  for (long long i = c; i < count; ++i) to[i] = rest[i - c];
}
