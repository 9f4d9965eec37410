// The two GEMMs of an attention block on AMX tiles, in transposed form: S^T = K Q^T and O^T += V^T P^T. Keys and values
// are packed into tiles once per call (stage 0), because every query block reads them all:
//   K    [16 keys][32 columns] tiles, ordered by key group of 16, then columns; columns padded with zeros
//   V^T  [16 columns][32 keys] tiles, ordered by key group of 32, then columns; keys beyond the sequence are zeros

constexpr int kDepthQk = round_up(kHeadDimQk, 32) / 32;            // tile steps of a score
constexpr int kColumnTiles = round_up(kHeadDimV, 32) / 16;         // an even number
constexpr long long kKeyGroupBytes = 2ll * kDepthQk * kTileBytes;  // of 32 keys
constexpr long long kValueGroupBytes = 1ll * kColumnTiles * kTileBytes;
constexpr int kPackGroups = 8;  // groups of 32 keys that one packing task takes

TS_INLINE long long key_groups(const TsAttentionArgs& args) {
  return (args.seqlen_k + 31) / 32;
}

// Where (batch, head_kv) begins in the workspace; its values follow its keys.
TS_INLINE char* packed(const TsAttentionArgs& args, long long batch, long long head_kv) {
  return static_cast<char*>(args.workspace) +
         (batch * args.heads_kv + head_kv) * key_groups(args) * (kKeyGroupBytes + kValueGroupBytes);
}

long long packed_size(const void* args_pointer) {
  const TsAttentionArgs& args = arguments(args_pointer);
  return args.batch * args.heads_kv * key_groups(args) * (kKeyGroupBytes + kValueGroupBytes);
}

long long pack_tasks(const void* args_pointer) {
  const TsAttentionArgs& args = arguments(args_pointer);
  return args.batch * args.heads_kv * ((key_groups(args) + kPackGroups - 1) / kPackGroups);
}

inline void pack_keys(const Rows& from, int count, char* to) {
  for (int j = 0; j < 32; ++j) {
    for (int c = 0; c < 32 * kDepthQk; c += 8) {
      const Shorts x = j < count && c < kHeadDimQk ? load_shorts<kCache>(from[j] + c) : Shorts{};
      *reinterpret_cast<LooseShorts*>(to + (j / 16 * kDepthQk + c / 32) * kTileBytes + j % 16 * kTileRow + c % 32 * 2) =
          x;
    }
  }
}

inline void pack_values(const Rows& from, int count, float* rows, char* to) {
  constexpr int kStride = 16 * kColumnTiles + 16;
  for (int j = 0; j < 32; j += 2) {
    float* row = rows + j / 2 * kStride;
    rows_to_pairs<kHeadDimV>(j < count ? from[j] : kZeroRow, j + 1 < count ? from[j + 1] : kZeroRow, row);
    zero_words(row + kHeadDimV, 16 * kColumnTiles - kHeadDimV);
  }
  for (int t = 0; t < kColumnTiles; ++t)
    transpose_block(rows + 16 * t, kStride, reinterpret_cast<float*>(to + t * kTileBytes), 16);
}

void run_pack(const void* args_pointer, long long task, void* scratch) {
  const TsAttentionArgs& args = arguments(args_pointer);
  const long long runs = (key_groups(args) + kPackGroups - 1) / kPackGroups;
  const long long batch = task / runs / args.heads_kv, head_kv = task / runs % args.heads_kv;
  const Sequence s = sequence_of(args, batch);
  Scratch& w = *static_cast<Scratch*>(scratch);
  // Pages before what the first query sees may be gone.
  const long long low = !kPaged ? 0 : s.seqlen_q > 0 ? window_begin(args, s, 0) : s.seqlen_k;
  char* to = packed(args, batch, head_kv);
  const long long groups = (s.seqlen_k + 31) / 32;
  const long long first = task % runs * kPackGroups;
  for (long long g = first; g < min_of(first + kPackGroups, groups); ++g) {
    const int count = (int)min_of(32, s.seqlen_k - 32 * g);
    if (32 * g + count <= low) continue;
    const KeyRows rows = key_rows(args, s, batch, head_kv, 32 * g, low, count, w.places);
    pack_keys(rows.keys, count, to + g * kKeyGroupBytes);
    pack_values(rows.values, count, w.v, to + key_groups(args) * kKeyGroupBytes + g * kValueGroupBytes);
  }
}

TS_INLINE void prepare_block(const TsAttentionArgs& args, const QueryBlock& q, const BlockOfKeys& block, long long low,
                             Scratch& w) {
  const char* base = packed(args, q.batch, q.head_kv);
  w.packed_keys = base + block.first / 32 * kKeyGroupBytes;
  w.packed_values = base + key_groups(args) * kKeyGroupBytes + block.first / 32 * kValueGroupBytes;
  load_scales(args, q.sequence, q.batch, q.head_kv, block.first, low, block.count, w.scales);
}

// One strip times 32 keys, into the score rows.
TS_INLINE void score_group(Scratch& w, int strip, int group) {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  tile_products(w.packed_keys + group * kKeyGroupBytes, kDepthQk * kTileBytes, kTileBytes,
                reinterpret_cast<const char*>(w.q[strip]), sizeof(w.q[0][0]), kDepthQk);
  float* s = w.s[32 * group];
  tile_store<0>(s, sizeof(w.s[0]));
  tile_store<1>(s + 16, sizeof(w.s[0]));
  tile_store<2>(s + 16 * kStrip, sizeof(w.s[0]));
  tile_store<3>(s + 16 * kStrip + 16, sizeof(w.s[0]));
}

// Logits and maxima of the scores of 32 keys.
template <bool kMasked>
TS_INLINE void reduce_group(const Scaling& scaling, const BlockOfKeys& block, Scratch& w, int strip, int group,
                            Vec (&top)[kVectors]) {
  const int end = (int)min_of(block.count, 32 * group + 32);
  for (int r = 32 * group; r < end; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* s = &w.s[r][v * kLanes];
      const Vec x = logit<kMasked>(scaling, w, strip * kStrip + v * kLanes, block.first + r, r, load(s));
      if constexpr (kMasked || kTransformed || kScaled) store(s, x);
      top[v] = larger(x, top[v]);
    }
  }
}

// Scores of one strip. A group is reduced after the next group's tile instructions were issued: they run side by side,
// and its tile stores have reached the cache, from where alone vector loads can read them.
template <bool kMasked>
inline void score(const Scaling& scaling, const BlockOfKeys& block, Scratch& w, int strip, Vec (&top)[kVectors]) {
  for (int v = 0; v < kVectors; ++v) top[v] = splat(-kInfinity);
  const int groups = (block.count + 31) / 32;
  for (int g = 0; g < groups; ++g) {
    score_group(w, strip, g);
    if (g > 0) reduce_group<kMasked>(scaling, block, w, strip, g - 1, top);
  }
  reduce_group<kMasked>(scaling, block, w, strip, groups - 1, top);
}

// Output sums of one strip; `factor` is null when nothing shrinks, and the first block of a strip starts from zero.
inline void accumulate(const BlockOfKeys& block, Scratch& w, int strip, const Vec* factor) {
  constexpr long long kStride = sizeof(w.o[0][0]);
  if (w.visited[strip] && factor != nullptr) {
    for (int c = 0; c < 16 * kColumnTiles; ++c) {
      for (int v = 0; v < kVectors; ++v)
        store(&w.o[strip][c][v * kLanes], load(&w.o[strip][c][v * kLanes]) * factor[v]);
    }
  }
  const int groups = (block.count + 31) / 32;
  for (int t = 0; t < kColumnTiles; t += 2) {
    float* o = w.o[strip][16 * t];
    if (w.visited[strip]) {
      tile_load<0>(o, kStride);
      tile_load<1>(o + 16, kStride);
      tile_load<2>(o + 16 * kStrip, kStride);
      tile_load<3>(o + 16 * kStrip + 16, kStride);
    } else {
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
    }
    tile_products(w.packed_values + t * kTileBytes, kTileBytes, kValueGroupBytes, reinterpret_cast<const char*>(w.p),
                  sizeof(w.p[0]), groups);
    tile_store<0>(o, kStride);
    tile_store<1>(o + 16, kStride);
    tile_store<2>(o + 16 * kStrip, kStride);
    tile_store<3>(o + 16 * kStrip + 16, kStride);
  }
  w.visited[strip] = true;
}
