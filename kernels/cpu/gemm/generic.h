// GEMM of any types, orders, scales and epilogue, all of it known at run time: what serves a problem that no other
// kernel does. One task computes kTileM rows by kTileN columns of the sums: blocks of kTileK elements of k become
// floats in its scratch, are multiplied in float32, and the blocks' sums added up. Whole numbers stay exact, because a
// block's sum is less than 2^24 (128 * 128 * kTileK), and blocks are added up as integers.

static_assert(kTileK <= 512 && kTileN % (2 * kLanes) == 0 && kTileM % kLanes == 0 && kTileK % kLanes == 0);

constexpr int kStrip = 4;           // rows that are multiplied together
constexpr int kScaleColumns = 128;  // columns of an 8-bit B that share a scale

TS_INLINE const TsGenericGemmArgs& arguments(const void* args) {
  return *static_cast<const TsGenericGemmArgs*>(args);
}

// A thread's memory, in floats. Of A a block has rows of kTileK, or (column-major) columns of kTileM.
struct Scratch {
  float *a, *b, *lines, *sums, *row, *second;

  explicit Scratch(void* memory) {
    a = static_cast<float*>(memory);
    b = a + kTileM * kTileK;
    lines = b + kTileN * kTileK;
    sums = lines + kTileN * kTileK;
    row = sums + kTileM * kTileN;
    second = row + kTileN;
  }
};

long long scratch_size(const void*) {
  return 4ll * (kTileM * kTileK + 2 * kTileN * kTileK + kTileM * kTileN + 2 * kTileN);
}

long long no_workspace(const void*) {
  return 0;
}

TS_INLINE long long blocks_of(long long size, long long block) {
  return (size + block - 1) / block;
}

long long tile_tasks(const void* args_pointer) {
  const TsGenericGemmArgs& args = arguments(args_pointer);
  return args.batch * blocks_of(args.m, kTileM) * blocks_of(args.n, kTileN);
}

// Calls change(first, count, block) for the blocks of scales that `depth` elements of k from `start` on lie in.
template <class Change>
TS_INLINE void each_block(long long start, int depth, int shift, Change change) {
  for (int e = 0; e < depth;) {
    const long long block = (start + e) >> shift;
    const int end = (int)min_of(depth, ((block + 1) << shift) - start);
    change(e, end - e, block);
    e = end;
  }
}

template <Element kType>
inline void round_line(float* x, int count) {
  for (int i = 0; i < count; i += kLanes) {
    typename StoredAs<kType>::Type stored[kLanes];
    store_floats<kType, kLanes>(stored, load(x + i));
    store(x + i, load_floats<kType, kLanes>(stored));
  }
}

// Elements of k of a row of an 8-bit A, or of a column of B, times the scales that line `line` of them has.
inline void scale_line(const TsScales& scales, long long member, long long line, int shift, long long start, int depth,
                       float* x) {
  const float* factors = static_cast<const float*>(scales.data) + member * scales.batch + line * scales.row;
  each_block(start, depth, shift, [&](int first, int count, long long block) {
    for (int i = 0; i < count; i += kLanes)  // a block is as long as k, or whole vectors
      store(x + first + i, load(x + first + i) * factors[block * scales.block]);
  });
}

// What the weights of a column mean.
inline void scale_weights(const TsGenericGemmArgs& args, long long member, long long column, long long start, int depth,
                          float* x) {
  const TsGemmForm& form = *args.form;
  const TsScales &scales = args.scale_b, &zeros = args.zero_b;
  each_block(start, depth, args.scale_shift, [&](int first, int count, long long block) {
    const float factor =
        read_one(form.scale, scales.data, member * scales.batch + column * scales.row + block * scales.block);
    const float zero = form.zero_points ? read_one(TS_INT8, zeros.data,
                                                   member * zeros.batch + column * zeros.row + block * zeros.block)
                                        : 0.0f;
    for (int i = 0; i < count; i += kLanes) store(x + first + i, (load(x + first + i) - zero) * factor);
  });
  if (form.a == TS_BF16)
    round_line<Element::bf16>(x, depth);
  else
    round_line<Element::fp16>(x, depth);
}

// A block of k and the tile that it is multiplied for.
struct Block {
  long long member, row, column, start;
  int rows, columns, depth;
};

inline void read_a(const TsGenericGemmArgs& args, const TsMatrix& a, const Block& t, float* to) {
  const TsGemmForm& form = *args.form;
  const long long member = t.member * a.batch;
  if (!form.row_a) {
    for (int k = 0; k < t.depth; ++k)
      read_line(form.a, a.data, member + (t.start + k) * a.leading + t.row, t.rows, to + k * kTileM);
    return;
  }
  for (int r = 0; r < t.rows; ++r) {
    float* const line = to + r * kTileK;
    read_line(form.a, a.data, member + (t.row + r) * a.leading + t.start, t.depth, line);
    if (form.blocks) scale_line(args.scale_a, t.member, t.row + r, args.scale_shift, t.start, t.depth, line);
  }
}

// Rows of kTileN columns; those beyond t.columns are zeros.
inline void read_b(const TsGenericGemmArgs& args, const TsMatrix& b, const Block& t, Scratch& w) {
  const TsGemmForm& form = *args.form;
  const long long member = t.member * b.batch;
  const int width = round_up(t.columns, 2 * kLanes);
  if (form.row_b) {
    for (int k = 0; k < t.depth; ++k) {
      float* const line = w.b + k * kTileN;
      for (int c = t.columns / kLanes * kLanes; c < width; c += kLanes) store(line + c, Vec{});
      read_line(form.b, b.data, member + (t.start + k) * b.leading + t.column, t.columns, line);
    }
    return;
  }
  const int packed = form.b == TS_INT4 ? 2 : 1;  // elements of a byte that strides count
  for (int c = 0; c < width; ++c) {
    float* const line = w.lines + c * kTileK;
    if (c >= t.columns) {
      for (int k = 0; k < t.depth; k += kLanes) store(line + k, Vec{});
      continue;
    }
    read_line(form.b, b.data, member + (t.column + c) * b.leading + t.start / packed, t.depth, line);
    if (form.weights)
      scale_weights(args, t.member, t.column + c, t.start, t.depth, line);
    else if (form.blocks)
      scale_line(args.scale_b, t.member, (t.column + c) / kScaleColumns, args.scale_shift, t.start, t.depth, line);
  }
  for (int k = 0; k < t.depth; k += kLanes)
    for (int c = 0; c < width; c += kLanes)
      transpose_block(w.lines + c * kTileK + k, kTileK, w.b + k * kTileN + c, kTileN);
}

// Adds the products of kRows rows with a block of B to their sums.
template <int kRows>
inline void multiply_rows(const TsGemmForm& form, const Block& t, const float* a, const float* b, float* sums) {
  const long long row_step = form.row_a ? kTileK : 1, step = form.row_a ? 1 : kTileM;
  for (int j = 0; j < t.columns; j += 2 * kLanes) {
    Vec sum[kRows][2] = {};
    for (int k = 0; k < t.depth; ++k) {
      const Vec low = load(b + k * kTileN + j), high = load(b + k * kTileN + j + kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec x = splat(a[r * row_step + k * step]);
        sum[r][0] = sum[r][0] + x * low;
        sum[r][1] = sum[r][1] + x * high;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        float* const to = sums + r * kTileN + j + v * kLanes;
        const Vec before = load(to);
        if (form.a == TS_INT8)
          store(to, (Vec)((UVec)before + (UVec) __builtin_convertvector(sum[r][v], IVec)));
        else
          store(to, before + sum[r][v]);
      }
    }
  }
}

// `t` without its place in k.
inline void add_products(const TsGenericGemmArgs& args, const TsMatrix& a, const TsMatrix& b, long long k, Block t,
                         Scratch& w) {
  const TsGemmForm& form = *args.form;
  for (t.start = 0; t.start < k; t.start += kTileK) {
    t.depth = (int)min_of(kTileK, k - t.start);
    read_a(args, a, t, w.a);
    read_b(args, b, t, w);
    const int row_step = form.row_a ? kTileK : 1;
    int r = 0;
    for (; r + kStrip <= t.rows; r += kStrip)
      multiply_rows<kStrip>(form, t, w.a + r * row_step, w.b, w.sums + r * kTileN);
    for (; r < t.rows; ++r) multiply_rows<1>(form, t, w.a + r * row_step, w.b, w.sums + r * kTileN);
  }
}

// A row of values on its way through the epilogue: columns `column` .. `column + count - 1`.
struct Row {
  long long member, row, column;
  int count;
  float *x, *y;  // the values, and what an operation reads

  template <class Change>
  TS_INLINE void change(Change f) {
    for (int i = 0; i < count; i += kLanes) store(x + i, f(load(x + i), load(y + i)));
  }
  void add() {
    change([](Vec a, Vec b) { return a + b; });
  }
  void multiply() {
    change([](Vec a, Vec b) { return a * b; });
  }
  void fill(float value) {
    for (int i = 0; i < count; i += kLanes) store(y + i, splat(value));
  }
  void read_matrix(TsGemmElement type, const void* data, long long leading, long long batch) {
    read_line(type, data, member * batch + row * leading + column, count, y);
  }

  void apply(const TsGemmForm& form, TsGemmOperation operation, const TsGemmOperand& operand) {
    switch (operation) {
      case TS_BIAS:
        read_line(form.bias, operand.data, column, count, y);
        return add();
      case TS_BIAS_M:
        fill(read_one(form.bias, operand.data, row));
        return add();
      case TS_SCALE_N:
        read_line(TS_FP32, operand.data, column, count, y);
        return multiply();
      case TS_SCALE_M:
        fill(read_one(TS_FP32, operand.data, row));
        return multiply();
      case TS_ADD:
        read_matrix(form.c, operand.data, operand.leading, operand.batch);
        return add();
      case TS_MULTIPLY:
        read_matrix(form.c, operand.data, operand.leading, operand.batch);
        return multiply();
      case TS_CLAMP:
        return change([&](Vec a, Vec) {
          const Vec raised = larger(splat(operand.low), a);  // a NaN stays
          return select(raised > operand.high, splat(operand.high), raised);
        });
      case TS_GLU:
      case TS_REGLU:
      case TS_GEGLU:
      case TS_GEGLU_TANH:
      case TS_SWIGLU:
        column /= 2;
        count /= 2;
        for (int i = 0; i < count; ++i) {
          const float gate = x[2 * i];
          y[i] = x[2 * i + 1];
          x[i] = gate;
        }
        apply_function(operation, x, count);
        return multiply();
      default:
        return apply_function(operation, x, count);
    }
  }
};

// The bits of the largest magnitude, which order like integers; a NaN's are the largest.
inline int largest_of(const float* x, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) {
    const int size = __builtin_bit_cast(int, x[i]) & 0x7fffffff;
    found = size > found ? size : found;
  }
  return found;
}

inline void raise_amax(float* amax, int found) {
  int* const to = reinterpret_cast<int*>(amax);
  int seen = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (seen < found && !__atomic_compare_exchange_n(to, &seen, found, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// A row of the sums on its way to D.
inline void finish_row(const TsGenericGemmArgs& args, const Block& t, int r, Scratch& w) {
  const TsGemmForm& form = *args.form;
  Row row = {t.member, t.row + r, t.column, t.columns, w.row, w.second};
  const float* sums = w.sums + r * kTileN;
  for (int i = 0; i < row.count; i += kLanes) {
    const Vec x = load(sums + i);
    store(row.x + i, (form.a == TS_INT8 ? __builtin_convertvector((IVec)x, Vec) : x) * args.alpha);
  }
  if (args.beta != 0) {
    row.read_matrix(form.c, args.c.data, args.c.leading, args.c.batch);
    row.change([&](Vec a, Vec b) { return a + args.beta * b; });
  }
  bool amax = false;
  for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && form.operations[i] != TS_END; ++i) {
    amax = form.operations[i] == TS_AMAX;
    if (!amax) row.apply(form, form.operations[i], args.operand[i]);
  }
  if (amax) raise_amax(args.amax, largest_of(row.x, row.count));
  write_line(form.d, row.x, row.count, args.d, t.member * args.d_batch + row.row * args.d_leading + row.column);
}

// Whole numbers: no term but C, and arithmetic modulo 2^32.
inline void finish_integers(const TsGenericGemmArgs& args, const Block& t, int r, Scratch& w) {
  const unsigned beta = (unsigned)(int)args.beta;
  const long long row = t.row + r;
  const float* sums = w.sums + r * kTileN;
  int* to = static_cast<int*>(args.d) + t.member * args.d_batch + row * args.d_leading + t.column;
  const int* c = static_cast<const int*>(args.c.data) + t.member * args.c.batch + row * args.c.leading + t.column;
  for (int j = 0; j < t.columns; ++j) {
    const unsigned sum = __builtin_bit_cast(unsigned, sums[j]);
    to[j] = (int)(beta == 0 ? sum : sum + beta * (unsigned)c[j]);
  }
}

void run_tile(const void* args_pointer, long long task, void* memory) {
  const TsGenericGemmArgs& args = arguments(args_pointer);
  const long long row_blocks = blocks_of(args.m, kTileM), column_blocks = blocks_of(args.n, kTileN);
  Scratch w(memory);
  Block t = {};
  t.member = task / row_blocks / column_blocks;
  t.row = task % row_blocks * kTileM;
  t.column = task / row_blocks % column_blocks * kTileN;
  t.rows = (int)min_of(kTileM, args.m - t.row);
  t.columns = (int)min_of(kTileN, args.n - t.column);
  for (int i = 0; i < kTileM * kTileN; i += kLanes) store(w.sums + i, Vec{});
  if (args.alpha != 0) {
    add_products(args, args.a, args.b, args.k, t, w);
    if (args.k2 != 0) add_products(args, args.a2, args.b2, args.k2, t, w);
  }
  for (int r = 0; r < t.rows; ++r) {
    if (args.form->d == TS_INT32)
      finish_integers(args, t, r, w);
    else
      finish_row(args, t, r, w);
  }
}
