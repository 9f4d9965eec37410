// A query block: kTileM (query, head) rows, one per lane, in strips of kStripVectors vectors. Usually the rows are
// consecutive queries of one head. When a whole sequence is shorter than a block and several query heads share a
// key-value head, the rows run through all heads of the group, so that short sequences fill the lanes and share the
// staged keys and values.

constexpr int strip_vectors(int vectors) {
  if (kInstruction == Instruction::amx_bf16) return 2;
  if (vectors % 3 == 0) return 3;
  if (kLanes == 16 && vectors % 4 == 0) return 4;
  return vectors % 2 == 0 ? 2 : 1;
}
constexpr int kVectors = strip_vectors(kTileM / kLanes);
constexpr int kStrip = kVectors * kLanes;
constexpr int kStrips = kTileM / kStrip;
static_assert(kTileM % kStrip == 0 && kTileN % 16 == 0);

constexpr int kRows = kInstruction == Instruction::amx_bf16 ? 32 : kAccumulators / kVectors;  // of one micro-tile
constexpr int kKeyGroup = kInstruction == Instruction::amx_bf16 ? 32 : 8;  // where blocks begin: at least dropout's 8
constexpr int kDepth =
    kInstruction == Instruction::amx_bf16 ? round_up(kWordsQk, 16) : kWordsQk;  // words of a packed query
constexpr int kKeyRows = round_up(kTileN, kRows);
constexpr int kKeyStride = round_up(kWordsQk, kLanes) + 16;  // never a power of two: such rows fall on few cache sets
constexpr int kColumns = round_up(kHeadDimV, kRows);
constexpr int kOutputRows = round_up(kColumns, 16);
constexpr int kValueStride = kColumns + 16;

// What the lanes stand for. Lanes beyond `count` repeat the last row and are never written out.
struct QueryRows {
  int count;
  int query[kTileM], head[kTileM];
  int low[kTileM], high[kTileM];          // the keys each lane sees
  float position[kTileM], slope[kTileM];  // ALiBi, base 2
  long long min_low[kStrips], max_low[kStrips], min_high[kStrips], max_high[kStrips];
};

struct alignas(64) Scratch {
  float q[kStrips][kDepth][kStrip];
  float o[kStrips][kOutputRows][kStrip];
  float k[kKeyRows * kKeyStride];
  float v[kTileN / kPack * kValueStride];
  float s[kKeyRows][kStrip];                     // scores, then (in place) probabilities
  float p[kPack == 2 ? kTileN / 2 : 1][kStrip];  // probabilities as pairs
  float bias[kBias ? kTileN : 1][kStrip];
  float m[kTileM], l[kTileM];  // running maximum and sum
  float block[kLanes * kLanes];
  bool visited[kStrips];
  const char *packed_keys, *packed_values;  // AMX: the block in the workspace
  QueryRows rows;
  Places<kTileN> places;
  KeyScales<kKeyRows> scales;
};

TS_INLINE bool packs_heads(const TsAttentionArgs& args) {
  return args.heads_q > args.heads_kv && args.seqlen_q < kTileM;
}

struct QueryBlock {
  long long batch, head, head_kv;  // the first query head
  long long first_row;
  Sequence sequence;
};

TS_INLINE long long heads_per_task(const TsAttentionArgs& args) {
  return packs_heads(args) ? args.heads_q / args.heads_kv : 1;
}

TS_INLINE long long query_blocks(const TsAttentionArgs& args) {
  return (heads_per_task(args) * args.seqlen_q + kTileM - 1) / kTileM;
}

inline long long query_tasks(const void* args_pointer) {
  const TsAttentionArgs& args = arguments(args_pointer);
  if (args.heads_kv == 0) return 0;
  return args.batch * (args.heads_q / heads_per_task(args)) * query_blocks(args);
}

// Under a mask the last blocks of every head come first, because with a causal mask they see the most keys; without
// one, the blocks of a head follow each other and share its keys and values in the caches.
inline QueryBlock query_block(const TsAttentionArgs& args, long long task) {
  const long long per_task = heads_per_task(args);
  const long long groups = args.heads_q / per_task;
  const long long blocks = query_blocks(args);
  long long group, block;
  if constexpr (kMask) {
    group = task % (args.batch * groups);
    block = blocks - 1 - task / (args.batch * groups);
  } else {
    group = task / blocks;
    block = task % blocks;
  }
  QueryBlock q;
  q.batch = group / groups;
  q.head = group % groups * per_task;
  q.head_kv = q.head / (args.heads_q / args.heads_kv);
  q.first_row = block * kTileM;
  q.sequence = sequence_of(args, q.batch);
  return q;
}

// Fills the lane table; false when the block has no row (a short sequence of a batch).
inline bool describe_rows(const TsAttentionArgs& args, const QueryBlock& q, QueryRows& rows) {
  const long long total = heads_per_task(args) * q.sequence.seqlen_q;
  if (q.first_row >= total) return false;
  rows.count = (int)min_of(kTileM, total - q.first_row);
  for (int lane = 0; lane < kTileM; ++lane) {
    const long long row = q.first_row + min_of(lane, rows.count - 1);
    const long long i = row % q.sequence.seqlen_q;
    const long long head = q.head + row / q.sequence.seqlen_q;
    const Visible v = visible_keys(args, q.sequence, i);
    rows.query[lane] = (int)i;
    rows.head[lane] = (int)head;
    rows.low[lane] = (int)v.low;
    rows.high[lane] = (int)v.high;
    if constexpr (kAlibi) {
      rows.position[lane] = (float)(i + q.sequence.shift);
      rows.slope[lane] = args.alibi[q.batch * args.alibi_batch_stride + head] * kLog2E;
    }
    const int strip = lane / kStrip;
    const bool first = lane % kStrip == 0;
    rows.min_low[strip] = first ? v.low : min_of(rows.min_low[strip], v.low);
    rows.max_low[strip] = first ? v.low : max_of(rows.max_low[strip], v.low);
    rows.min_high[strip] = first ? v.high : min_of(rows.min_high[strip], v.high);
    rows.max_high[strip] = first ? v.high : max_of(rows.max_high[strip], v.high);
  }
  return true;
}

// Q^T: words down the rows, queries along the lanes.
inline void pack_queries(const TsAttentionArgs& args, const QueryBlock& q, const Scaling& scaling, Scratch& w) {
  const Stored* base = static_cast<const Stored*>(args.q);
  constexpr int kStride = round_up(kWordsQk, kLanes);
  static_assert(kLanes * kStride <= kKeyRows * kKeyStride);
  for (int lane0 = 0; lane0 < kTileM; lane0 += kLanes) {
    for (int r = 0; r < kLanes; ++r) {
      float* row = w.k + r * kStride;
      if (lane0 + r >= w.rows.count) {
        zero_words(row, kStride);
        continue;
      }
      zero_words(row + kWordsQk, kStride - kWordsQk);
      row_to_words<kHeadDimQk, kElement>(
          base + offset_of(args.q_strides, q.batch, w.rows.head[lane0 + r], q.sequence.first_query) +
              w.rows.query[lane0 + r] * args.q_strides.row,
          row);
      apply_sign(scaling, row);
    }
    for (int c0 = 0; c0 < kWordsQk; c0 += kLanes) {
      transpose_block(w.k + c0, kStride, w.block, kLanes);
      for (int c = c0; c < c0 + kLanes && c < kDepth; ++c) {
        store(&w.q[lane0 / kStrip][c][lane0 % kStrip], load(w.block + (c - c0) * kLanes));
      }
    }
  }
}
