// Attention forward of any head dimension with every trait, all of it known at run time: what serves a problem that no
// other kernel does. One task computes kTileM queries of a head, over blocks of kTileN keys, in float32.

constexpr int kStrip = 4;         // queries that are multiplied together
constexpr int kScaleBlock = 128;  // rows of a sequence that share a scale of 8-bit elements

TS_INLINE const TsAttentionArgs& arguments(const void* args) {
  return *static_cast<const TsAttentionArgs*>(args);
}

// A thread's memory, in floats.
struct Scratch {
  float *q, *k, *transposed, *v, *s, *o, *m, *sum;
};

struct Sizes {
  long long qk, v;  // head dimensions in whole vectors
};

TS_INLINE Sizes sizes_of(const TsAttentionArgs& args) {
  return {whole_vectors(args.head_dim_qk), whole_vectors(args.head_dim_v)};
}

long long scratch_size(const void* args_pointer) {
  const Sizes size = sizes_of(arguments(args_pointer));
  const long long floats = kTileM * (size.qk + size.v + kTileN + 2 * kLanes) + kTileN * (2 * size.qk + size.v);
  return floats * (long long)sizeof(float);
}

TS_INLINE Scratch scratch_of(const Sizes& size, void* memory) {
  Scratch w;
  w.q = static_cast<float*>(memory);
  w.k = w.q + kTileM * size.qk;
  w.transposed = w.k + kTileN * size.qk;
  w.v = w.transposed + kTileN * size.qk;
  w.o = w.v + kTileN * size.v;
  w.s = w.o + kTileM * size.v;
  w.m = w.s + kTileM * kTileN;
  w.sum = w.m + kTileM * kLanes;
  return w;
}

long long no_workspace(const void*) {
  return 0;
}

TS_INLINE long long row_tiles(const TsAttentionArgs& args) {
  return (args.seqlen_q + kTileM - 1) / kTileM;
}

long long query_tasks(const void* args_pointer) {
  const TsAttentionArgs& args = arguments(args_pointer);
  return args.batch * args.heads_q * row_tiles(args);
}

// The tile of a head that a task works on.
struct Tile {
  long long batch, head, head_kv, first_row, rows;
  long long first_query, first_key, seqlen_q, seqlen_k, shift;
};

inline Tile tile_of(const TsAttentionArgs& args, long long task) {
  Tile t = {};
  const long long tiles = row_tiles(args);
  t.batch = task / tiles / args.heads_q;
  t.head = task / tiles % args.heads_q;
  t.head_kv = t.head / (args.heads_q / args.heads_kv);
  t.first_row = (tiles - 1 - task % tiles) * kTileM;  // the last rows of a causal mask see the most
  t.seqlen_q = args.seqlen_q;
  t.seqlen_k = args.seqlen_k;
  if (args.cu_seqlens_q != nullptr) {
    t.first_query = args.cu_seqlens_q[t.batch];
    t.seqlen_q = args.cu_seqlens_q[t.batch + 1] - t.first_query;
    if (args.paged.page_size == 0) {
      t.first_key = args.cu_seqlens_k[t.batch];
      t.seqlen_k = args.cu_seqlens_k[t.batch + 1] - t.first_key;
    }
  }
  if (args.paged.page_size > 0) t.seqlen_k = args.paged.lengths[t.batch];
  t.shift = args.mask_bottom_right ? t.seqlen_k - t.seqlen_q : 0;
  t.rows = max_of(0, min_of(kTileM, t.seqlen_q - t.first_row));
  return t;
}

TS_INLINE long long offset_of(const TsAttentionArgs& args, const TsStrides& strides, long long batch, long long head,
                              long long first_row, long long row) {
  return (args.cu_seqlens_q != nullptr ? first_row * strides.row : batch * strides.batch) + head * strides.head +
         row * strides.row;
}

// The page that key j of a tile's sequence is in.
TS_INLINE long long page_of_key(const TsAttentionArgs& args, const Tile& t, long long j) {
  const TsPagedKeys& paged = args.paged;
  if (paged.numbers == nullptr) return t.batch;
  return paged
      .numbers[(paged.offsets != nullptr ? paged.offsets[t.batch] : t.batch * paged.stride) + j / paged.page_size];
}

// Where key j of a tile's sequence begins in k or v.
TS_INLINE long long offset_of_key(const TsAttentionArgs& args, const TsStrides& strides, const Tile& t, long long j) {
  const long long size = args.paged.page_size;
  if (size == 0) return offset_of(args, strides, t.batch, t.head_kv, t.first_key, j);
  return page_of_key(args, t, j) * strides.batch + t.head_kv * strides.head + j % size * strides.row;
}

TS_INLINE float scale_at(const TsScale& scale, long long batch, long long head, long long row) {
  return scale.data == nullptr ? 1.0f
                               : scale.data[batch * scale.batch + head * scale.head + row / kScaleBlock * scale.block];
}

TS_INLINE float scale_of_key(const TsAttentionArgs& args, const TsScale& scale, const Tile& t, long long j) {
  if (scale.data == nullptr || !args.page_scale) return scale_at(scale, t.batch, t.head_kv, j);
  return scale
      .data[page_of_key(args, t, j) * scale.batch + t.head_kv * scale.head + j % args.paged.page_size * scale.block];
}

// Reads a row of k, or of v, that begins at `row`. In vectorized pages (contract/paged_keys.h) a row's elements lie
// apart: a key's vectors by the page's, a value's elements by a vector.
template <class Type, class Read>
inline void read_key_row(const TsAttentionArgs& args, const Type* row, bool values, long long j, long long count,
                         Read read) {
  if (!args.paged.vectorized) return read(row, 0, count);
  constexpr int kVector = 16 / (int)sizeof(Type);
  const long long size = args.paged.page_size, in_page = j % size, of_vector = in_page % kVector;
  const Type* from = row + (values ? (in_page - of_vector) * count + of_vector : in_page * kVector);
  Type some[kLanes];
  for (long long c = 0; c < count; c += kLanes) {
    const int part = (int)min_of(kLanes, count - c);
    for (int e = 0; e < part; ++e)
      some[e] = values ? from[(c + e) * kVector] : from[(c + e) / kVector * kVector * size + (c + e) % kVector];
    read(some, c, part);
  }
}

// Row j of k or v, whose elements may be others than those of q.
inline void read_key(const TsAttentionArgs& args, bool values, const TsStrides& strides, const TsScale& scale,
                     const Tile& t, long long j, long long count, float* to) {
  const void* const tensor = values ? args.v : args.k;
  const long long offset = offset_of_key(args, strides, t, j);
  const float by = scale_of_key(args, scale, t, j);
  if (args.cache == TS_CACHE_FP8) {
    read_key_row(args, static_cast<const unsigned char*>(tensor) + offset, values, j, count,
                 [&](const unsigned char* from, long long c, long long part) {
                   read_row<Element::fp8e4m3>(from, part, by, to + c);
                 });
  } else if (args.cache == TS_CACHE_INT8) {
    read_key_row(
        args, static_cast<const signed char*>(tensor) + offset, values, j, count,
        [&](const signed char* from, long long c, long long part) { read_row<Element::int8>(from, part, by, to + c); });
  } else {
    read_key_row(args, static_cast<const Stored*>(tensor) + offset, values, j, count,
                 [&](const Stored* from, long long c, long long part) { read_row(from, part, by, to + c); });
  }
}

// Keys and values `key` .. `key + count - 1`, and zeros up to the block's end and before `first`: no query sees what
// is there, and pages before it may be gone.
inline void load_block(const TsAttentionArgs& args, const Tile& t, const Sizes& size, long long key, long long first,
                       int count, Scratch& w) {
  for (int j = 0; j < kTileN; ++j) {
    if (j < count && key + j >= first) {
      read_key(args, false, args.k_strides, args.k_scale, t, key + j, args.head_dim_qk, w.k + j * size.qk);
      read_key(args, true, args.v_strides, args.v_scale, t, key + j, args.head_dim_v, w.v + j * size.v);
    } else {
      for (long long c = 0; c < size.qk; ++c) w.k[j * size.qk + c] = 0;
      for (long long c = 0; c < size.v; ++c) w.v[j * size.v + c] = 0;
    }
  }
  for (long long c = 0; c < size.qk; c += kLanes)
    for (int j = 0; j < kTileN; j += kLanes)
      transpose_block(w.k + j * size.qk + c, size.qk, w.transposed + c * kTileN + j, kTileN);
}

// Dot products of kRows queries from `row` on with the block.
template <int kRows>
inline void score(const Sizes& size, int row, Scratch& w) {
  const float* q = w.q + row * size.qk;
  for (int j = 0; j < kTileN; j += 2 * kLanes) {
    Vec sum[kRows][2] = {};
    for (long long c = 0; c < size.qk; ++c) {
      const Vec low = load(w.transposed + c * kTileN + j), high = load(w.transposed + c * kTileN + j + kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec x = splat(q[r * size.qk + c]);
        sum[r][0] = sum[r][0] + x * low;
        sum[r][1] = sum[r][1] + x * high;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      store(w.s + (row + r) * kTileN + j, sum[r][0]);
      store(w.s + (row + r) * kTileN + j + kLanes, sum[r][1]);
    }
  }
}

template <int kRows>
inline void multiply_values(const Sizes& size, int row, int count, Scratch& w) {
  for (long long c = 0; c < size.v; c += kLanes) {
    Vec sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = load(w.o + (row + r) * size.v + c);
    for (int j = 0; j < count; ++j) {
      const Vec v = load(w.v + j * size.v + c);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r] = sum[r] + w.s[(row + r) * kTileN + j] * v;
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store(w.o + (row + r) * size.v + c, sum[r]);
  }
}

// Turns a row's dot products into probabilities, and brings its maximum, sum and output up to date.
inline void softmax_row(const TsAttentionArgs& args, const Tile& t, const Sizes& size, int r, long long key, int count,
                        Scratch& w) {
  constexpr IVec kIota = TS_LANE_NUMBERS;
  const long long i = t.first_row + r;
  float* s = w.s + r * kTileN;
  long long low = 0, high = t.seqlen_k - 1;
  const long long diagonal = i + t.shift + args.diagonal;
  if (args.window_left >= 0) low = min_of(t.seqlen_k, max_of(0, diagonal - args.window_left));
  if (args.window_right >= 0) high = max_of(-1, min_of(high, diagonal + args.window_right));
  const float slope = args.alibi != nullptr ? args.alibi[t.batch * args.alibi_batch_stride + t.head] : 0.0f;
  Vec top = splat(-kInfinity);
  for (int j = 0; j < kTileN; j += kLanes) {
    Vec x = load(s + j) * args.scale;
    if (args.soft_cap > 0) x = tanh(x / args.soft_cap) * args.soft_cap;
    if (args.bias != nullptr) {
      const TsStrides& strides = args.bias_strides;
      const float* row = args.bias + t.batch * strides.batch + t.head * strides.head + i * strides.row;
      float bias[kLanes] = {};
      for (int e = 0; e < kLanes && j + e < count; ++e) bias[e] = row[(key + j + e) * strides.column];
      x = x + load(bias);
    }
    const IVec place = splat((int)(key + j)) + kIota;
    if (slope != 0) x = x - slope * magnitude(splat((float)(i + t.shift)) - __builtin_convertvector(place, Vec));
    const IVec seen = (kIota + j < count) & (place >= (int)low) & (place <= (int)high);
    x = select(seen, x, splat(-kInfinity));
    top = larger(x, top);
    store(s + j, x);
  }
  float largest = w.m[r * kLanes];
  for (int e = 0; e < kLanes; ++e) largest = top[e] > largest ? top[e] : largest;
  const float anchor = largest == -kInfinity ? 0.0f : largest;  // -inf - -inf is NaN
  if (largest > w.m[r * kLanes]) {
    const float shrink = exp2<5>(splat((w.m[r * kLanes] - largest) * kLog2E))[0];
    w.m[r * kLanes] = largest;
    w.sum[r * kLanes] *= shrink;
    for (long long c = 0; c < size.v; c += kLanes) store(w.o + r * size.v + c, load(w.o + r * size.v + c) * shrink);
  }
  Vec sum = {};
  for (int j = 0; j < kTileN; j += kLanes) {
    const Vec p = exp2<5>((load(s + j) - anchor) * kLog2E);
    sum = sum + p;
    store(s + j, p);
  }
  for (int e = 0; e < kLanes; ++e) w.sum[r * kLanes] += sum[e];
  if (args.drop_threshold == 0) return;
  const UVec batch_head = splat((unsigned)(t.batch * args.heads_q + t.head));
  for (int j = 0; j < count; j += 8) {
    const PhiloxWords words = dropout_words(args, key + j, splat((unsigned)i), batch_head);
    for (int e = 0; e < 8; ++e)
      if (dropout_keeps(words, e, args.drop_threshold)[0] == 0) s[j + e] = 0;
  }
}

inline void finish_row(const TsAttentionArgs& args, const Tile& t, const Sizes& size, int r, Scratch& w) {
  float m = w.m[r * kLanes], sum = w.sum[r * kLanes];
  float weight = 65536.0f / (float)(65536 - (int)args.drop_threshold);
  if (args.sink != nullptr) {
    const float sink = args.sink[t.head];
    const float top = m > sink ? m : sink;
    if (top != -kInfinity) {
      const float shrink = m == -kInfinity ? 0.0f : exp2<5>(splat((m - top) * kLog2E))[0];
      const float joined = sink == -kInfinity ? 0.0f : exp2<5>(splat((sink - top) * kLog2E))[0];
      weight *= shrink;
      sum = sum * shrink + joined;
      m = top;
    }
  }
  const long long i = t.first_row + r;
  if (args.lse != nullptr) {
    const float lse = sum == 0 ? -kInfinity : m + log2(splat(sum))[0] * kLn2;
    args.lse[offset_of(args, args.lse_strides, t.batch, t.head, t.first_query, i)] = sum == sum ? lse : sum;
  }
  const float scale = sum == 0 ? 0.0f : weight / sum;
  float* o = w.o + r * size.v;
  for (long long c = 0; c < size.v; c += kLanes) store(o + c, scale == 0 ? Vec{} : load(o + c) * scale);
  write_row(o, args.head_dim_v,
            static_cast<Output*>(args.o) + offset_of(args, args.o_strides, t.batch, t.head, t.first_query, i));
}

void run_query_block(const void* args_pointer, long long task, void* memory) {
  const TsAttentionArgs& args = arguments(args_pointer);
  const Tile t = tile_of(args, task);
  if (t.rows == 0) return;
  const Sizes size = sizes_of(args);
  Scratch w = scratch_of(size, memory);
  const int rows = (int)t.rows;
  for (int r = 0; r < rows; ++r) {
    const long long i = t.first_row + r;
    read_row(static_cast<const Stored*>(args.q) + offset_of(args, args.q_strides, t.batch, t.head, t.first_query, i),
             args.head_dim_qk, scale_at(args.q_scale, t.batch, t.head, i), w.q + r * size.qk);
    for (long long c = 0; c < size.v; ++c) w.o[r * size.v + c] = 0;
    w.m[r * kLanes] = -kInfinity;
    w.sum[r * kLanes] = 0;
  }
  // Blocks begin at multiples of the tile, so that the counters of dropout do.
  long long first = 0, last = t.seqlen_k - 1;
  const long long diagonal = t.first_row + t.shift + args.diagonal;
  if (args.window_left >= 0) first = max_of(0, diagonal - args.window_left);
  if (args.window_right >= 0) last = min_of(last, diagonal + rows - 1 + args.window_right);
  for (long long key = first / kTileN * kTileN; key <= last; key += kTileN) {
    const int count = (int)min_of(kTileN, t.seqlen_k - key);
    load_block(args, t, size, key, first, count, w);
    for (int r = 0; r < rows; r += kStrip) {
      const bool whole = r + kStrip <= rows;
      const int end = whole ? r + kStrip : rows;
      if (whole) {
        score<kStrip>(size, r, w);
      } else {
        for (int one = r; one < end; ++one) score<1>(size, one, w);
      }
      for (int one = r; one < end; ++one) softmax_row(args, t, size, one, key, count, w);
      if (whole) {
        multiply_values<kStrip>(size, r, count, w);
      } else {
        for (int one = r; one < end; ++one) multiply_values<1>(size, one, count, w);
      }
    }
  }
  for (int r = 0; r < rows; ++r) finish_row(args, t, size, r, w);
}
