// Which sequence a task works on and which keys a query sees.

// The exported functions receive the arguments as const void*.
TS_INLINE const TsAttentionArgs& arguments(const void* args) {
  return *static_cast<const TsAttentionArgs*>(args);
}

struct Sequence {
  long long first_query = 0, first_key = 0;  // rows of the tensors where the sequence begins (group mode)
  long long seqlen_q = 0, seqlen_k = 0;
  long long shift = 0;         // key column = query row + shift on the mask's diagonal
  const int* pages = nullptr;  // kPaged: the numbers of its pages
};

inline Sequence sequence_of(const TsAttentionArgs& args, long long batch) {
  Sequence s;
  s.seqlen_q = args.seqlen_q;
  s.seqlen_k = args.seqlen_k;
  if constexpr (kGroupMode) {
    s.first_query = args.cu_seqlens_q[batch];
    s.seqlen_q = args.cu_seqlens_q[batch + 1] - s.first_query;
    if constexpr (!kPaged) {
      s.first_key = args.cu_seqlens_k[batch];
      s.seqlen_k = args.cu_seqlens_k[batch + 1] - s.first_key;
    }
  }
  if constexpr (kPaged) {
    const TsPagedKeys& paged = args.paged;
    s.seqlen_k = paged.lengths[batch];
    if (paged.numbers != nullptr)
      s.pages = paged.numbers + (paged.offsets != nullptr ? paged.offsets[batch] : batch * paged.stride);
  }
  s.shift = args.mask_bottom_right ? s.seqlen_k - s.seqlen_q : 0;
  return s;
}

// Where (batch, head, row 0 of the sequence) of a tensor begins; the batch stride has no meaning in group mode.
TS_INLINE long long offset_of(const TsStrides& strides, long long batch, long long head, long long first_row) {
  return (kGroupMode ? first_row * strides.row : batch * strides.batch) + head * strides.head;
}

// The first key that the window lets query i see, whether or not it sees any; later queries see none before it.
TS_INLINE long long window_begin(const TsAttentionArgs& args, const Sequence& s, long long i) {
  return kMask && args.window_left >= 0 ? max_of(0, i + s.shift + args.diagonal - args.window_left) : 0;
}

// The keys low..high that query i sees; none when low > high.
struct Visible {
  long long low, high;
};

TS_INLINE Visible visible_keys(const TsAttentionArgs& args, const Sequence& s, long long i) {
  Visible v = {window_begin(args, s, i), s.seqlen_k - 1};
  if constexpr (kMask) {
    if (args.window_right >= 0) v.high = min_of(v.high, i + s.shift + args.diagonal + args.window_right);
    if (v.low > v.high) v = {s.seqlen_k, -1};
  }
  return v;
}

// Where the rows of a block of keys, or of values, lie: one behind the other, or in pages.
template <bool kInPages>
struct RowsOf {
  const Cached* first;
  long long stride;
  TS_INLINE const Cached* operator[](long long j) const { return first + j * stride; }
};
template <>
struct RowsOf<true> {
  const Cached* tensor;
  const long long* places;  // in elements
  TS_INLINE const Cached* operator[](long long j) const { return tensor + places[j]; }
};
template <bool kInPages>
struct KeyRowsOf {
  RowsOf<kInPages> keys, values;
};
using Rows = RowsOf<kPaged>;
using KeyRows = KeyRowsOf<kPaged>;

// The number of the page that key j of a sequence is in.
TS_INLINE long long page_of_key(const TsAttentionArgs& args, const Sequence& s, long long batch, long long j) {
  return s.pages != nullptr ? s.pages[j / args.paged.page_size] : batch;
}

// Memory for the places of a block's rows.
template <int kMost>
struct Places {
  long long keys[kPaged ? kMost : 1], values[kPaged ? kMost : 1];
  GatheredRows<kPaged ? kMost : 1> gathered;  // of vectorized pages
};

// The rows of keys first .. first + count - 1 of a sequence. In pages, those before `low` stand for row `low`: no query
// sees them, and their page may be gone.
template <int kMost, bool kInPages = kPaged>
TS_INLINE KeyRowsOf<kInPages> key_rows(const TsAttentionArgs& args, const Sequence& s, long long batch,
                                       long long head_kv, long long first, long long low, int count,
                                       Places<kMost>& places) {
  const Cached* k = static_cast<const Cached*>(args.k);
  const Cached* v = static_cast<const Cached*>(args.v);
  if constexpr (kInPages) {
    const long long size = args.paged.page_size;
    const int skipped = (int)max_of(0, low - first);
    long long page = (first + skipped) / size, row = (first + skipped) % size;
    for (int j = skipped; j < count; ++page, row = 0) {
      const long long number = page_of_key(args, s, batch, page * size);
      const long long key = number * args.k_strides.batch + head_kv * args.k_strides.head;
      const long long value = number * args.v_strides.batch + head_kv * args.v_strides.head;
      if (args.paged.vectorized) {
        const int rows = (int)min_of(count - j, size - row);
        gather_keys(k + key, size, row, rows, places.gathered.keys + j * kHeadDimQk);
        gather_values(v + value, row, rows, places.gathered.values + j * kHeadDimV);
        for (const int end = j + rows; j < end; ++j) {
          places.keys[j] = (long long)j * kHeadDimQk;
          places.values[j] = (long long)j * kHeadDimV;
        }
        continue;
      }
      for (; j < count && row < size; ++j, ++row) {
        places.keys[j] = key + row * args.k_strides.row;
        places.values[j] = value + row * args.v_strides.row;
      }
    }
    for (int j = 0; j < skipped; ++j) {
      places.keys[j] = places.keys[skipped];
      places.values[j] = places.values[skipped];
    }
    if (args.paged.vectorized) return {{places.gathered.keys, places.keys}, {places.gathered.values, places.values}};
    return {{k, places.keys}, {v, places.values}};
  } else {
    return {
        {k + offset_of(args.k_strides, batch, head_kv, s.first_key) + first * args.k_strides.row, args.k_strides.row},
        {v + offset_of(args.v_strides, batch, head_kv, s.first_key) + first * args.v_strides.row, args.v_strides.row}};
  }
}

// What a block's dot products and weights are multiplied by, for keys and values of 8 bits: so their elements need no
// more than a conversion.
constexpr bool kScaled = kCache != kElement;
template <int kMost>
struct KeyScales {
  float keys[kScaled ? kMost : 1], values[kScaled ? kMost : 1];
};

// The scales of keys first .. first + count - 1; 1 where no query sees a key.
template <int kMost>
TS_INLINE void load_scales(const TsAttentionArgs& args, const Sequence& s, long long batch, long long head_kv,
                           long long first, long long low, int count, KeyScales<kMost>& scales) {
  if constexpr (kScaled) {
    const auto load = [&](const TsScale& scale, float* to) {
      const bool one = scale.data == nullptr || !args.page_scale;
      const float shared = one && scale.data != nullptr ? scale.data[batch * scale.batch + head_kv * scale.head] : 1.0f;
      for (int j = 0; j < kMost; ++j) to[j] = shared;
      if (one) return;
      const long long size = args.paged.page_size;
      for (int j = (int)max_of(0, low - first); j < count; ++j)
        to[j] = scale.data[page_of_key(args, s, batch, first + j) * scale.batch + head_kv * scale.head +
                           (first + j) % size * scale.block];
    };
    load(args.k_scale, scales.keys);
    load(args.v_scale, scales.values);
  }
}

// The numbers by which scores become exponents of 2. The sign of the scale goes into the queries (exactly), so that the
// largest score has the largest exponent; a scale of 0 clears the queries.
constexpr bool kTransformed = kSoftCap || kBias || kAlibi;  // logits are brought to base 2 before the maximum is taken
// Of a logit that was brought to base 2. With a bias it is 2, because log2(e) / 2 < 1: a bias of any finite size, such
// as the type's lowest number as a mask, stays finite and keeps its order.
constexpr float kUnit = kBias ? 2.0f : 1.0f;
constexpr float kToBase2 = kLog2E / kUnit;
constexpr float kLargest = 3.40282347e38f;

struct Scaling {
  float dot = 1;       // kTransformed: from a dot product to a base-2 logit, or to the argument of tanh
  float capped = 1;    // kSoftCap: from tanh to a base-2 logit
  float exponent = 1;  // from a stored score to an exponent of 2
  unsigned query_keep = ~0u, query_flip = 0;  // bit operations on query words
};

inline Scaling scaling_of(const TsAttentionArgs& args) {
  Scaling s;
  float scale = args.scale;
  if (scale == 0) {
    s.query_keep = 0;
    scale = 1;
  } else if (scale < 0) {
    s.query_flip = kPack == 2 ? 0x80008000u : 0x80000000u;
    scale = -scale;
  }
  if constexpr (kSoftCap) {
    // A larger cap changes no logit that floats tell apart from its tanh, and would overflow in base 2.
    const float cap = args.soft_cap < 0x1p100f ? args.soft_cap : 0x1p100f;
    s.dot = scale / cap;
    s.capped = cap * kToBase2;
  } else if constexpr (kTransformed) {
    s.dot = scale * kToBase2;
  } else {
    s.exponent = scale * kLog2E;
  }
  if constexpr (kBias) s.exponent = kUnit;
  return s;
}

// The log-sum-exp, from a maximum in units of kUnit and a sum. log2 knows no NaN.
TS_INLINE Vec natural_lse(Vec m, Vec sum) {
  const Vec log_of_sum = select(sum == sum, log2(sum), sum);
  if constexpr (!kBias) return (m + log_of_sum) * kLn2;
  const Vec x = larger(splat(-kLargest), m * (kUnit * kLn2) + log_of_sum * kLn2);
  return select(x > kLargest, splat(kLargest), x);
}

// Gives a row of query words the scale's sign.
TS_INLINE void apply_sign(const Scaling& scaling, float* row) {
  if (scaling.query_keep == ~0u && scaling.query_flip == 0) return;
  for (int c = 0; c < kWordsQk; ++c) {
    unsigned bits;
    __builtin_memcpy(&bits, row + c, 4);
    bits = (bits & scaling.query_keep) ^ scaling.query_flip;
    __builtin_memcpy(row + c, &bits, 4);
  }
}
