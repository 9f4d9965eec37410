// How decode shares keys out, and where its kernels stand among the candidates.
#include "choose/attention/cuda_decode.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "choose/attention/cuda.hpp"
#include "choose/random_problem.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& hopper() {
  return testing::cuda_arch("sm_90a");
}

AttentionProblem decode_problem(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t keys) {
  return {.batch = batch, .heads_q = heads_q, .heads_kv = heads_kv, .seqlen_q = 1, .seqlen_k = keys};
}

std::vector<KernelConfig> decode_kernels(const AttentionProblem& p) {
  std::vector<KernelConfig> out;
  const Ranking ranking = rank(hopper(), p).value();
  for (const Candidate& one : ranking.candidates)
    if (is_decode(one.recipe.main().algorithm.pipeline)) out.push_back(one.recipe.main());
  return out;
}

CudaDecodeWork work_of(const AttentionProblem& p, const KernelConfig& config) {
  return cuda_decode_work(config, hopper(), cuda_attention_shape(p));
}

TEST(CudaDecode, AFewItemsAreCutAndManyAreNot) {
  const AttentionProblem one = decode_problem(1, 32, 8, 8192), many = decode_problem(128, 32, 8, 8192);
  const KernelConfig config = decode_kernels(one).front();
  const CudaDecodeWork cut = work_of(one, config);
  EXPECT_EQ(cut.items, 8);
  EXPECT_GT(cut.items * cut.pieces, hopper().reference.sms / 2);
  EXPECT_LE(work_of(many, config).pieces, 2);
  EXPECT_GT(work_of(many, config).seconds, 50 * cut.seconds);
}

TEST(CudaDecode, PiecesHoldAllBlocksOfKeys) {
  for (const std::int64_t keys : {0, 1, 63, 64, 65, 1000, 131072})
    for (const std::int64_t splits : {0, 1, 2, 7, 1000}) {
      AttentionProblem p = decode_problem(2, 8, 2, keys);
      p.splits = splits;
      for (const KernelConfig& config : decode_kernels(p)) {
        const CudaDecodeWork work = work_of(p, config);
        EXPECT_GE(work.piece_tiles, 1);
        EXPECT_GE(work.pieces, 1);
        EXPECT_GE(work.pieces * work.piece_tiles * config.algorithm.tile[1], keys);
        EXPECT_LE((work.pieces - 1) * work.piece_tiles * config.algorithm.tile[1], std::max<std::int64_t>(keys, 1));
        if (splits > 0) {
          EXPECT_LE(work.pieces, splits);
        }
      }
    }
}

// The kernel counts the pieces of an item itself: none may have more than its partials have places.
TEST(CudaDecode, AWindowsItemsHaveNoMorePiecesThanPlaces) {
  for (const std::int64_t left : {0, 1, 62, 63, 64, 65, 500})
    for (const std::int64_t queries : {1, 3, 8}) {
      AttentionProblem p = decode_problem(1, 8, 8, 1000);
      p.seqlen_q = queries, p.window_left = left, p.window_right = 0, p.splits = 1000;
      for (const KernelConfig& config : decode_kernels(p)) {
        const CudaDecodeWork work = work_of(p, config);
        const std::int64_t block = config.algorithm.tile[1];
        for (std::int64_t last = 0; last < p.seqlen_k; ++last) {  // the last key that a tile's last query sees
          const std::int64_t first = std::max<std::int64_t>(0, last - (queries - 1) - left);
          EXPECT_LE(last / block - first / block + 1, work.pieces * work.piece_tiles) << left << " " << last;
        }
      }
    }
}

// Of few keys a kernel of its own would take a quarter of the time.
TEST(CudaDecode, WritesTheNewKeysThatItAttendsTo) {
  const auto writes = [](const AttentionProblem& p) {
    std::vector<bool> out;
    const Ranking ranking = rank(hopper(), p).value();
    for (const Candidate& one : ranking.candidates)
      out.push_back(writes_new_keys(one.recipe.main(), cuda_attention_shape(p)));
    return out;
  };
  const auto none = [&](const AttentionProblem& p) { return std::ranges::count(writes(p), true) == 0; };
  AttentionProblem p = decode_problem(1, 32, 8, 8192);
  p.page_size = 16;
  EXPECT_TRUE(none(p)) << "it appends nothing";
  p.append = true;
  EXPECT_TRUE(writes(p).front());
  p.batch = 64;
  EXPECT_FALSE(writes(p).front()) << "what the other kernel saves is more";
  p.batch = 1, p.mask = MaskKind::bottom_right, p.window_left = 100, p.window_right = 0;
  EXPECT_FALSE(none(p));
  for (const auto change :
       {+[](AttentionProblem& x) { x.mask = MaskKind::top_left; }, +[](AttentionProblem& x) { x.diagonal = -1; },
        +[](AttentionProblem& x) { x.cache = KvElements::int8; },
        +[](AttentionProblem& x) { x.vectorized_pages = true; },
        +[](AttentionProblem& x) { x.seqlen_q = 5; }}) {  // 20 rows
    AttentionProblem other = p;
    change(other);
    EXPECT_TRUE(none(other));
  }
}

TEST(CudaDecode, ClustersJoinWhatHasFewKeys) {
  const auto cluster_of = [](const AttentionProblem& p) { return work_of(p, decode_kernels(p).front()).cluster; };
  AttentionProblem p = decode_problem(1, 32, 8, 1000);
  EXPECT_EQ(cluster_of(p), 8);
  p.splits = 8;
  EXPECT_EQ(cluster_of(p), 0) << "a sequence's bits follow from the number";
  p.splits = 0, p.batch_invariant = true;
  EXPECT_EQ(cluster_of(p), 0);
  p.batch_invariant = false, p.seqlen_k = 65536;
  EXPECT_EQ(cluster_of(p), 0) << "the SMs of eight clusters read no faster";
  p.seqlen_k = 1000, p.batch = 64;
  EXPECT_EQ(cluster_of(p), 0) << "the chip holds fewer clusters";
  p.batch = 1, p.page_size = 16;
  EXPECT_GT(cluster_of(p), 1);
  p.seqlen_k = 8192;
  EXPECT_EQ(cluster_of(p), 0);
  p.seqlen_k = 1000, p.mode = SequenceMode::group;
  EXPECT_EQ(cluster_of(p), 0) << "items are known to the device alone";
  EXPECT_EQ(cluster_of(decode_problem(1, 64, 1, 1024)), 8);
  EXPECT_EQ(cluster_of(decode_problem(4, 64, 1, 1024)), 0) << "four tiles of rows read the same keys";
  EXPECT_EQ(cluster_of(decode_problem(1, 64, 8, 4096)), 0) << "hardly faster by the model, and slower in truth";
}

// 168 key heads for 132 SMs: each has a whole one, and a piece of the others.
TEST(CudaDecode, HeadsBeyondTheSmsAreCutToFillThem) {
  AttentionProblem p = decode_problem(84, 14, 2, 1771);
  const KernelConfig config = decode_kernels(p).front();
  const CudaDecodeWork work = work_of(p, config);
  const std::int64_t sms = hopper().reference.sms;
  EXPECT_EQ(work.whole_heads, sms);
  EXPECT_GT(work.pieces, 1);
  EXPECT_EQ(work.blocks, sms + (168 - sms) * work.pieces);
  EXPECT_LE(work.blocks, 2 * sms);
  EXPECT_FALSE(work.joins_apart);
  EXPECT_TRUE(work.ends_unevenly);
  const auto whole = [&](AttentionProblem other) { return work_of(other, config).whole_heads; };
  AttentionProblem other = p;
  other.splits = 3;
  EXPECT_EQ(whole(other), 0) << "a sequence's bits follow from the number";
  other = p, other.batch_invariant = true;
  EXPECT_EQ(whole(other), 0);
  other = p, other.mode = SequenceMode::group;
  EXPECT_EQ(whole(other), 0) << "lengths are known to the device alone";
  other = p, other.batch = 66;
  EXPECT_EQ(whole(other), 0) << "all fill the SMs";
  other = p, other.batch = 60;
  EXPECT_EQ(whole(other), 0) << "none can be whole";
}

// Blocks that are no more than SMs have one each; a launch whose blocks end at different times says so.
TEST(CudaDecode, BlocksStandApartWhereEachHasAnSm) {
  AttentionProblem list = decode_problem(1, 32, 8, 8192);
  list.page_size = 64;
  EXPECT_TRUE(work_of(list, decode_kernels(list).front()).apart);
  for (const std::int64_t batch : {1, 2, 16, 20, 60, 84, 132, 500}) {
    const AttentionProblem p = decode_problem(batch, 14, 2, 1771);
    for (const KernelConfig& config : decode_kernels(p)) {
      const CudaDecodeWork work = work_of(p, config);
      EXPECT_EQ(work.apart, work.blocks <= hopper().reference.sms) << batch;
      EXPECT_FALSE(work.apart && work.ends_unevenly) << batch;
    }
  }
}

// One long sequence beside short ones is cut as if it were alone, or finer: its pieces share SMs with others then, and
// alone each that can has one.
TEST(CudaDecode, ALongSequenceIsCutWhateverStandsBesideIt) {
  AttentionProblem alone = decode_problem(1, 32, 8, 131072), beside = decode_problem(32, 32, 8, 131072);
  alone.page_size = beside.page_size = 16;
  const KernelConfig config = decode_kernels(alone).front();
  EXPECT_GT(work_of(alone, config).pieces, 8);
  EXPECT_TRUE(work_of(alone, config).apart);
  EXPECT_FALSE(work_of(beside, config).apart);
  EXPECT_LE(work_of(beside, config).piece_tiles, work_of(alone, config).piece_tiles);
  EXPECT_GE(2 * work_of(beside, config).piece_tiles, work_of(alone, config).piece_tiles);
  EXPECT_LE(work_of(beside, config).blocks, 2 * hopper().reference.sms);
  AttentionProblem chat = decode_problem(128, 32, 8, 512);
  chat.page_size = 16;
  EXPECT_EQ(work_of(chat, config).pieces, 1);
}

// Where the device finds sequences of one length, no block has a second piece beside others that have one.
TEST(CudaDecode, ListsOfOneLengthAreCutForTheBlocks) {
  const auto of_even = [](std::int64_t batch, std::int64_t keys) {
    AttentionProblem p = decode_problem(batch, 32, 8, keys);
    p.page_size = 16;
    const CudaDecodeWork work = work_of(p, decode_kernels(p).front());
    EXPECT_GT(work.wanted_pieces, 0);
    if (work.wanted_of_even > 0) {
      EXPECT_EQ(work.wanted_of_even % work.items, 0) << "items are cut alike";
      const std::int64_t rounds = (work.wanted_of_even + work.blocks - 1) / work.blocks;
      EXPECT_GE(10 * work.wanted_of_even, 9 * rounds * work.blocks);
    }
    return work.wanted_of_even;
  };
  EXPECT_EQ(of_even(8, 8192), 4 * 8 * 8);
  EXPECT_EQ(of_even(16, 8192), 2 * 16 * 8);
  EXPECT_EQ(of_even(16, 1024), 16 * 8) << "nearly every SM has an item";
  EXPECT_EQ(of_even(64, 4096), 64 * 8) << "whole items, in two rounds";
  EXPECT_EQ(of_even(40, 4096), 0) << "320 whole items: some blocks would have two";
  AttentionProblem p = decode_problem(16, 32, 8, 8192);
  p.page_size = 16, p.splits = 3;
  EXPECT_EQ(work_of(p, decode_kernels(p).front()).wanted_of_even, 0);
  p.splits = 0, p.mode = SequenceMode::group, p.seqlen_q = 2;
  EXPECT_EQ(work_of(p, decode_kernels(p).front()).wanted_of_even, 0) << "sequences have other numbers of items";
}

// Where nearly every SM has an item, a block for each SM walks the list, of few keys: of one length whole items.
TEST(CudaDecode, AListOfAnItemForEachSmHasABlockForEach) {
  const std::int64_t sms = hopper().reference.sms;
  const auto work = [](std::int64_t batch, std::int64_t heads_kv, std::int64_t keys) {
    AttentionProblem p = decode_problem(batch, 8 * heads_kv, heads_kv, keys);
    p.page_size = 16;
    const std::vector<KernelConfig> kernels = decode_kernels(p);
    const auto of_two = std::ranges::find_if(kernels, [](const KernelConfig& one) {
      return one.algorithm.pipeline == Pipeline::decode_wgmma && cuda_attention_resources(one).blocks_per_sm == 2;
    });
    EXPECT_NE(of_two, kernels.end());
    return work_of(p, *of_two);
  };
  for (const std::int64_t keys : {700, 1024, 1500, 2000}) {
    const CudaDecodeWork each = work(16, 8, keys);
    EXPECT_LE(each.blocks, sms) << keys;
    EXPECT_TRUE(each.apart) << keys;
    EXPECT_EQ(each.wanted_of_even, each.items) << keys;
    EXPECT_EQ(each.queued, each.items * each.pieces > sms) << keys;
  }
  EXPECT_GT(work(16, 8, 16384).blocks, sms) << "hardly faster by the model, and slower where lengths differ";
  EXPECT_GT(work(14, 8, 1500).blocks, sms) << "112 items: 20 SMs would have none";
  EXPECT_GT(work(17, 8, 1500).blocks, sms) << "136 items: four are beyond the SMs";
  EXPECT_GT(work(64, 8, 1024).blocks, sms) << "whole rounds of items, of two blocks an SM";
}

// Working a list out takes 1 to 2 us. Where all pieces run at once, and a long sequence beside short ones is hardly
// slower, each has a block by its place in the grid.
TEST(CudaDecode, PiecesThatAllRunAtOnceNeedNoList) {
  const auto of_grid = [](std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t keys) {
    AttentionProblem p = decode_problem(batch, heads_q, heads_kv, keys);
    p.page_size = 64;
    return work_of(p, decode_kernels(p).front()).of_grid;
  };
  EXPECT_TRUE(of_grid(4, 64, 1, 1024));
  EXPECT_TRUE(of_grid(16, 64, 1, 1024));
  EXPECT_TRUE(of_grid(4, 32, 8, 1024));
  EXPECT_TRUE(of_grid(1, 32, 8, 65536));
  EXPECT_FALSE(of_grid(4, 32, 8, 8192)) << "one long sequence alone would have 32 blocks";
  EXPECT_FALSE(of_grid(16, 64, 8, 8192));
  EXPECT_FALSE(of_grid(128, 32, 8, 1024)) << "more items than the chip holds";
  AttentionProblem p = decode_problem(4, 64, 1, 1024);
  EXPECT_FALSE(work_of(p, decode_kernels(p).front()).of_grid) << "tensors have no list";
  p.page_size = 64;
  const KernelConfig config = decode_kernels(p).front();
  ASSERT_TRUE(work_of(p, config).of_grid);
  for (const auto change :
       {+[](AttentionProblem& q) { q.splits = 4; }, +[](AttentionProblem& q) { q.batch_invariant = true; }}) {
    AttentionProblem other = p;
    change(other);
    EXPECT_FALSE(work_of(other, config).of_grid) << "pieces follow from what the problem names";
  }
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    p = decode_problem(1 + seed % 7 * (seed % 5), 64, std::int64_t{1} << seed % 4, 100 + 97 * (seed * seed % 500));
    p.page_size = std::array{1, 16, 64}[seed % 3];
    for (const KernelConfig& each : decode_kernels(p)) {
      const CudaDecodeWork work = work_of(p, each);
      if (!work.of_grid) continue;
      const CudaAttentionResources facts = cuda_attention_resources(each);
      EXPECT_EQ(work.blocks, work.items * work.pieces);
      EXPECT_LE(work.blocks, hopper().reference.sms * facts.blocks_per_sm);
      EXPECT_FALSE(work.queued || work.wanted_pieces > 0 || work.cluster > 0);
      EXPECT_TRUE(facts.grid_entry);
    }
  }
}

// What a list's pieces are at least, and what share of the blocks must have work, the spec says.
TEST(CudaDecode, ListsAreCutByTheSpecsFigures) {
  AttentionProblem p = decode_problem(40, 16, 2, 3000);
  p.page_size = 16;
  const KernelConfig config = decode_kernels(p).front();
  const auto work_by = [&](const CudaDecodeListModel& list) {
    CudaSpec spec = hopper();
    for (CudaAttentionPipeline& pipeline : spec.attention_fwd)
      if (pipeline.decode) pipeline.decode->list = list;
    return cuda_decode_work(config, spec, cuda_attention_shape(p));
  };
  const CudaDecodeListModel list = decode_model(config, hopper()).list;
  EXPECT_EQ(work_by(list).piece_tiles, work_of(p, config).piece_tiles);
  CudaDecodeListModel longer = list;
  longer.piece_keys *= 2;
  EXPECT_GT(work_by(longer).piece_tiles, work_by(list).piece_tiles);
  longer = list, longer.piece_steps = static_cast<int>(2 * work_by(list).piece_tiles);
  EXPECT_EQ(work_by(longer).piece_tiles, 2 * work_by(list).piece_tiles);
  CudaDecodeListModel all = list, any = list;
  all.busy = 1, any.busy = 0.01;
  EXPECT_EQ(work_by(all).wanted_of_even, 0);
  EXPECT_GT(work_by(any).wanted_of_even, 0);
}

// A block alone widens keys of 8 bits slowly: two on each SM, or steps of as many keys that one is enough.
TEST(CudaDecode, NarrowKeysAreCutForTheRateOfABlock) {
  AttentionProblem p = decode_problem(1, 32, 8, 65536);
  p.page_size = 64, p.cache = KvElements::fp8;
  const KernelConfig config = decode_kernels(p).front();
  EXPECT_TRUE(config.algorithm.tile[1] >= 128 || work_of(p, config).blocks > hopper().reference.sms);
}

// Where key heads are about as many as SMs, a block of eight warps has one alone: none of them is cut, if all have one
// length. Many more are walked by two blocks an SM, whose starts and ends overlap.
TEST(CudaDecode, NarrowKeyHeadsHaveAnSmEach) {
  const auto first = [](std::int64_t batch, std::int64_t keys) {
    AttentionProblem p = decode_problem(batch, 32, 8, keys);
    p.page_size = 64, p.cache = KvElements::fp8;
    return std::pair(decode_kernels(p).front(), work_of(p, decode_kernels(p).front()));
  };
  const auto [config, work] = first(16, 8192);
  EXPECT_EQ(config.algorithm.tile[1], 256);
  EXPECT_EQ(cuda_attention_resources(config).warps, 8);
  EXPECT_TRUE(work.apart);
  EXPECT_TRUE(work.queued) << "lengths may differ";
  EXPECT_EQ(work.wanted_of_even, work.items);
  for (const std::int64_t batch : {32, 64}) EXPECT_EQ(first(batch, 4096).first.algorithm.tile[1], 128) << batch;
  EXPECT_EQ(cuda_attention_resources(first(64, 4096).first).warps, 4);
}

// The kernel and the least piece follow from types, heads and queries; the most pieces too.
TEST(CudaDecode, OfBatchInvariantProblemsNothingBesideASequenceDecides) {
  for (const std::int64_t page : {0, 16})
    for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group})
      for (const auto& [heads_q, heads_kv] : {std::pair(32, 8), std::pair(64, 1), std::pair(32, 32)}) {
        AttentionProblem alone = decode_problem(1, heads_q, heads_kv, 300);
        alone.mode = mode, alone.page_size = page, alone.batch_invariant = true;
        AttentionProblem beside = alone;
        beside.batch = 300, beside.seqlen_k = 131072, beside.splits = 7;
        if (page > 0) beside.page_size = 1;
        if (mode == SequenceMode::group) beside.seqlen_q = 2;
        const auto order = [](const AttentionProblem& p) {
          std::vector<std::string> out;
          const Ranking ranking = rank(hopper(), p).value();
          for (const Candidate& one : ranking.candidates) out.push_back(native_name(one.recipe.main()));
          return out;
        };
        EXPECT_EQ(order(beside), order(alone));
        for (const KernelConfig& config : decode_kernels(alone)) {
          const CudaDecodeWork one = work_of(alone, config), many = work_of(beside, config);
          EXPECT_EQ(many.piece_tiles, one.piece_tiles);
          EXPECT_EQ(many.most_pieces, one.most_pieces);
          EXPECT_GT(many.most_pieces, 0);
          EXPECT_EQ(many.wanted_pieces, 0);
          EXPECT_GT(many.pieces, 1);
          EXPECT_LE(many.pieces, many.most_pieces);
          AttentionProblem longer = alone;
          longer.seqlen_k = 5000;
          const CudaDecodeWork cut = work_of(longer, config);
          EXPECT_GT(cut.pieces, 1);
          EXPECT_EQ(many.joins_apart, cut.joins_apart);
          EXPECT_EQ(many.join_warps, cut.join_warps);
          EXPECT_GT(many.seconds, one.seconds);
        }
      }
}

// Joins of many rows are a launch of their own, whose teams of warps load their shares at once and divide a block.
TEST(CudaDecode, ManyRowsAreJoinedByALaunchOfTheirOwn) {
  AttentionProblem p = decode_problem(1, 64, 1, 65536);
  for (const KernelConfig& config : decode_kernels(p))
    for (const std::int64_t splits : {2, 8, 9, 64, 300}) {
      p.splits = splits;
      const CudaDecodeWork work = work_of(p, config);
      const int warps = cuda_attention_resources(config).threads / 32;
      EXPECT_EQ(warps % work.join_warps, 0);
      EXPECT_TRUE(work.join_warps == warps || work.join_warps * 8 >= work.pieces);
      EXPECT_EQ(work.join_warps == 1, work.pieces <= 8);
    }
  p.splits = 64;
  const auto joins_apart = [](const AttentionProblem& one) {
    return work_of(one, decode_kernels(one).front()).joins_apart;
  };
  EXPECT_TRUE(joins_apart(p));
  p.batch = 1000;
  EXPECT_TRUE(joins_apart(p)) << "what stands beside a sequence does not decide";
  p.splits = 1;
  EXPECT_FALSE(joins_apart(p));
  p.splits = 0, p.batch = 1, p.batch_invariant = true;
  EXPECT_TRUE(joins_apart(p));
  p.seqlen_k = 100;
  EXPECT_FALSE(joins_apart(p)) << "there is one piece";
}

AttentionProblem latent_problem(std::int64_t batch, std::int64_t heads, std::int64_t keys) {
  AttentionProblem p = decode_problem(batch, heads, 1, keys);
  p.head_dim_qk = 576, p.head_dim_v = 512, p.latent = true, p.page_size = 64;
  return p;
}

// Beside rows of 8 bits queries are a product's columns: of few heads a tile of 64 would multiply zeros. Of many, small
// tiles would widen rows again, which pays where they fill a chip that is else idle.
TEST(CudaDecode, FewQueriesBesideNarrowLatentRowsHaveATileOfTheirOwn) {
  for (const std::int64_t heads : {8, 16, 32, 64, 100, 128})
    for (const std::int64_t batch : {1, 16, 128})
      for (const std::int64_t keys : {2048, 8192}) {
        if (heads > 16 && batch * keys < 100'000) continue;
        AttentionProblem p = latent_problem(batch, heads, keys);
        p.cache = KvElements::fp8;
        const KernelConfig config = decode_kernels(p).front();
        EXPECT_EQ(config.algorithm.pipeline, Pipeline::decode_wgmma) << native_name(config);
        EXPECT_EQ(config.algorithm.tile[0], heads <= 16   ? 16
                                            : heads <= 32 ? 32
                                                          : 64)
            << native_name(config) << ", batch " << batch;
      }
}

// A launch that joins finds nothing to do where lists of sequences of one length are not cut. Of latent rows its blocks
// fill an SM each, so that a warp takes more of a row where there would be more of them.
TEST(CudaDecode, LatentRowsAreJoinedByALaunchWhereSequencesAreCut) {
  struct Case {
    std::int64_t batch, heads, keys;
    bool joins_apart;
    std::int64_t join_units;
  };
  for (const Case& c : {Case{16, 128, 4096, true, 4}, Case{32, 64, 8192, true, 4}, Case{8, 128, 4096, true, 2},
                        Case{1, 128, 8192, true, 1}, Case{128, 128, 4096, false, 1}, Case{128, 16, 4096, false, 1}}) {
    const AttentionProblem p = latent_problem(c.batch, c.heads, c.keys);
    const KernelConfig config = decode_kernels(p).front();
    EXPECT_EQ(config.algorithm.tile[1], 128) << "two stages of 64 keys are slower";
    EXPECT_TRUE(config.algorithm.late_wait);
    const CudaDecodeWork work = work_of(p, config);
    EXPECT_EQ(work.joins_apart, c.joins_apart) << c.batch << " " << c.heads;
    EXPECT_EQ(work.join_units, c.join_units) << c.batch << " " << c.heads;
  }
  AttentionProblem fixed = latent_problem(128, 128, 4096);
  fixed.splits = 2;
  EXPECT_TRUE(work_of(fixed, decode_kernels(fixed).front()).joins_apart) << "all are cut";
}

// A cluster has eight blocks at most, and joins the pieces of an item where no block has more than one piece.
TEST(CudaDecode, LatentRowsAreJoinedByClustersWhereEachBlockHasOnePiece) {
  const auto cluster = [](const AttentionProblem& p) {
    const CudaDecodeWork work = work_of(p, decode_kernels(p).front());
    EXPECT_TRUE(work.cluster == 0 || work.cluster == work.pieces);
    EXPECT_TRUE(work.cluster == 0 || work.blocks == work.items * work.cluster);
    EXPECT_TRUE(work.cluster == 0 || work.blocks <= hopper().reference.sms);
    return work.cluster;
  };
  const AttentionProblem p = latent_problem(16, 128, 4096);
  EXPECT_EQ(cluster(p), 4);
  EXPECT_EQ(cluster(latent_problem(64, 16, 1024)), 2);
  EXPECT_EQ(cluster(latent_problem(16, 100, 2000)), 4);
  EXPECT_EQ(cluster(latent_problem(11, 100, 3000)), 6);
  EXPECT_EQ(cluster(latent_problem(8, 100, 4000)), 8);
  EXPECT_EQ(cluster(latent_problem(128, 16, 1024)), 1);
  EXPECT_EQ(cluster(latent_problem(128, 128, 4096)), 0) << "a queue";
  EXPECT_EQ(cluster(latent_problem(1, 16, 8192)), 0) << "many pieces";
  AttentionProblem other = p;
  other.splits = 4;
  EXPECT_EQ(cluster(other), 0) << "pieces follow from the longest sequence";
  other = p, other.batch_invariant = true;
  EXPECT_EQ(cluster(other), 0);
  other = p, other.mode = SequenceMode::group;
  EXPECT_EQ(cluster(other), 0) << "sequences have as many queries as they like";
  other = p, other.page_size = 0;
  EXPECT_EQ(cluster(other), 0) << "tensors";
}

// Where each block has a piece clusters join them, of sixteen steps at least. Of a queue of few heads eight are enough,
// so that no block reads twice as long as others; partials of many heads would take much memory.
TEST(CudaDecode, LatentQueuesHaveShorterPieces) {
  const auto piece_of = [](std::int64_t batch, std::int64_t heads, std::int64_t rows) {
    AttentionProblem p = decode_problem(batch, heads, 1, rows);
    p.head_dim_qk = 576, p.head_dim_v = 512, p.latent = true, p.page_size = 64;
    return work_of(p, decode_kernels(p).front());
  };
  EXPECT_EQ(piece_of(32, 64, 8192).piece_tiles, 16);
  EXPECT_GT(piece_of(32, 64, 8192).cluster, 1);
  for (const auto& [batch, rows] : {std::pair(128, 4096), std::pair(64, 8000)}) {
    EXPECT_TRUE(piece_of(batch, 16, rows).queued) << rows;
    EXPECT_EQ(piece_of(batch, 16, rows).piece_tiles, 8) << rows;
    EXPECT_GE(piece_of(batch, 128, rows).piece_tiles, 16) << rows;
  }
  EXPECT_LT(piece_of(32, 16, 131072).piece_tiles, 16) << "a sequence that most blocks take goes first";
  EXPECT_GE(piece_of(129, 16, 131072).piece_tiles, 16) << "more sequences than are ordered: it may go last";
}

TEST(CudaDecode, FewRowsInPagesAreReadByNoOtherKernel) {
  AttentionProblem p = decode_problem(2, 8, 2, 4096);
  p.page_size = 16, p.seqlen_q = 16;
  EXPECT_FALSE(decode_kernels(p).empty());
  EXPECT_EQ(decode_kernels(p).size(), rank(hopper(), p).value().candidates.size());
  const auto refused = refusals(hopper(), p).value();
  EXPECT_TRUE(std::ranges::any_of(refused, [](const Refusal& one) {
    return one.config.algorithm.pipeline == Pipeline::warp_specialized && one.rule == "suits_shape";
  }));
}

TEST(CudaDecode, ManyRowsInPagesAreTilesOfQueries) {
  AttentionProblem p = decode_problem(4, 32, 8, 8192);
  p.page_size = 16, p.seqlen_q = 2000;
  EXPECT_FALSE(decode_kernels(p).empty());
  const auto first = [&] { return rank(hopper(), p).value().candidates.front().recipe.main().algorithm.pipeline; };
  EXPECT_EQ(first(), Pipeline::warp_specialized);
  for (const KvElements narrow : {KvElements::int8, KvElements::fp8}) {
    p.cache = narrow;
    EXPECT_EQ(first(), Pipeline::warp_specialized);
  }
  p.cache = KvElements::as_queries, p.vectorized_pages = true;
  EXPECT_EQ(first(), Pipeline::decode);
}

TEST(CudaDecode, VectorizedPagesAreReadByMmaAlone) {
  AttentionProblem p = decode_problem(2, 8, 2, 4096);
  p.page_size = 16;
  const std::size_t of_rows = decode_kernels(p).size();
  p.vectorized_pages = true;
  const std::vector<KernelConfig> kernels = decode_kernels(p);
  EXPECT_FALSE(kernels.empty());
  EXPECT_LT(kernels.size(), of_rows);
  for (const KernelConfig& config : kernels) EXPECT_EQ(config.algorithm.pipeline, Pipeline::decode);
  EXPECT_TRUE(serves(hopper(), kernels.front(), p));
  const std::vector<Refusal> refused = refusals(hopper(), p).value();
  for (const Refusal& one : refused)
    if (one.config.algorithm.pipeline == Pipeline::decode_wgmma && one.rule == "suits_shape") {
      EXPECT_FALSE(serves(hopper(), one.config, p));
      EXPECT_NE(one.figures.find("vectorized pages"), std::string::npos);
    }
  p.head_dim_qk = p.head_dim_v = 256;
  EXPECT_NE(rank(hopper(), p).error().message.find("vectorized pages of 256/256 bf16"), std::string::npos);
  p.head_dim_qk = p.head_dim_v = 64, p.cache = KvElements::fp8;
  EXPECT_NE(rank(hopper(), p).error().message.find("elements of 8 bits"), std::string::npos);
}

TEST(CudaDecode, ManyQueriesAreOthersWork) {
  AttentionProblem p = decode_problem(2, 32, 4, 8192);
  for (const std::int64_t tiles : {1, 2, 32}) {
    p.seqlen_q = 8 * tiles;
    EXPECT_FALSE(decode_kernels(p).empty()) << tiles << " tiles of rows";
  }
  p.seqlen_q = 257;
  EXPECT_TRUE(decode_kernels(p).empty());
  const auto refused = refusals(hopper(), p).value();
  EXPECT_TRUE(std::ranges::any_of(refused, [](const Refusal& one) {
    return one.config.algorithm.pipeline == Pipeline::decode && one.rule == "suits_shape";
  }));
}

TEST(CudaDecode, SeveralTilesOfRowsAreOthersWorkWherePredictionsDoNotHold) {
  const AttentionProblem plain = decode_problem(2, 32, 4, 8192);
  AttentionProblem biased = plain, ragged = plain, invariant = plain;
  biased.bias = BiasKind::elementwise;
  ragged.mode = SequenceMode::group;
  invariant.batch_invariant = true;
  for (AttentionProblem p : {biased, ragged, invariant}) {
    p.seqlen_q = 8;
    EXPECT_FALSE(decode_kernels(p).empty());
    p.seqlen_q = 9;
    EXPECT_TRUE(decode_kernels(p).empty());
  }
}

// Measured on an H200: one query of 8 key heads takes 21 us where tiles of queries take 69, and 144 in place of 1017.
TEST(CudaDecode, GoesFirstWhereTilesLeaveTheChipIdle) {
  const auto is_first = [](const AttentionProblem& p) {
    return is_decode(rank(hopper(), p).value().candidates.front().recipe.main().algorithm.pipeline);
  };
  for (const std::int64_t keys : {1024, 8192, 131072}) {
    AttentionProblem p = decode_problem(1, 32, 8, keys);
    EXPECT_TRUE(is_first(p)) << keys;
    p.bias = BiasKind::alibi;  // no model was fitted for it
    EXPECT_TRUE(is_first(p)) << keys;
    p.seqlen_q = 4096;
    EXPECT_FALSE(is_first(p)) << keys;
  }
  EXPECT_FALSE(is_first(decode_problem(16, 32, 8, 8192))) << "tiles fill the chip";
}

// Measured on an H200: 12 us where tiles of queries take 37, 18 in place of 239 and 75 in place of 248; of 128 queries
// of 8 heads behind 275 keys, which both are predicted 6.3, 7.4 in place of 7.1.
TEST(CudaDecode, SeveralTilesOfRowsGoFirstWhereTheyAreClearlyFaster) {
  const auto is_first = [](std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t queries,
                           std::int64_t keys, std::int64_t head_dim) {
    AttentionProblem p = decode_problem(batch, heads_q, heads_kv, keys);
    p.seqlen_q = queries, p.head_dim_qk = p.head_dim_v = head_dim;
    return is_decode(rank(hopper(), p).value().candidates.front().recipe.main().algorithm.pipeline);
  };
  EXPECT_TRUE(is_first(2, 1, 1, 283, 3423, 128));
  EXPECT_TRUE(is_first(1, 1, 1, 93, 20234, 256));
  EXPECT_TRUE(is_first(2, 2, 1, 509, 29146, 96));
  EXPECT_TRUE(is_first(1, 128, 1, 1, 16384, 128)) << "two tiles of one query";
  EXPECT_FALSE(is_first(2, 4, 1, 128, 275, 128)) << "predicted alike";
  EXPECT_FALSE(is_first(3, 9, 9, 191, 2216, 64)) << "18.1 in place of 20.2";
  EXPECT_FALSE(is_first(16, 16, 16, 300, 8192, 128)) << "tiles of queries fill the chip";
}

TEST(CudaDecode, ManyItemsAreTilesOfShortSteps) {
  for (const AttentionProblem& p :
       {decode_problem(128, 32, 8, 1024), decode_problem(64, 32, 32, 1024), decode_problem(128, 64, 8, 8192)}) {
    const Ranking ranking = rank(hopper(), p).value();
    const Algorithm& first = ranking.candidates.front().recipe.main().algorithm;
    EXPECT_EQ(first.pipeline, Pipeline::warp_specialized);
    EXPECT_EQ(first.tile[1], 64) << "those of 128 keys take 1 to 3 % longer";
  }
  AttentionProblem narrow = decode_problem(155, 8, 8, 606);
  narrow.head_dim_qk = narrow.head_dim_v = 64;
  const Ranking ranking = rank(hopper(), narrow).value();
  EXPECT_LE(ranking.candidates.front().recipe.main().algorithm.tile[0], 128) << "192 rows take 2 % longer";
}

TEST(CudaDecode, WhatHasNotBeenTestedComesLast) {
  const AttentionProblem p = decode_problem(2, 32, 4, 8192);
  CudaSpec spec = hopper();
  for (CudaAttentionPipeline& pipeline : spec.attention_fwd) {
    pipeline.tested = !is_decode(pipeline.pipeline);
  }
  const auto candidates = rank(spec, p).value().candidates;
  EXPECT_FALSE(is_decode(candidates.front().recipe.main().algorithm.pipeline));
  EXPECT_TRUE(is_decode(candidates.back().recipe.main().algorithm.pipeline));
  EXPECT_EQ(candidates.size(), rank(hopper(), p).value().candidates.size());
}

}  // namespace
}  // namespace tilesmith
