// The GEMM tiles of an NVIDIA architecture: what measurement said of each, and the problems it was found best for.
#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "spec/json_reader.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// Unbatched problems with both operands along k for which a tile is the first choice; an absent part holds for all.
struct CudaGemmCondition {
  std::optional<int> element_bytes;  ///< of A and B
  std::optional<int> most_m, most_n, most_k;
};

/// The fields are those of Algorithm.
struct CudaGemmTile {
  int tile_m = 0;
  int tile_n = 0;
  std::optional<Instruction> instruction;  ///< where it is not the pipeline's
  std::vector<int> wave;  ///< warp_specialized [warpgroups], mma_sm80 [along m, along n], few rows [1, 1, warps]
  int stages = 0;         ///< 0: as many as fit
  int tma_boxes = 0;      ///< skinny_tma, weight_only: boxes of 128 bytes of A's k in a stage
  int blocks_per_sm = 1;
  int cluster_m = 1;
  int cluster_n = 1;
  int cluster_k =
      1;           ///< most blocks of a cluster that share a tile by k; from 2 on, a row for clusters of 2 to so many
  int splits = 1;  ///< most parts of k; more than 1 make a tile that splits k
  bool ping_pong = false;
  bool split_k_atomic = false;
  bool stream_k = false;
  bool transpose_c = false;
  bool groups = false;                         ///< for groups alone; where a pipeline has such, they take no others
  double step_us = 0;                          ///< microseconds for a stage of k; 0 where memory alone decides
  double end_us = 0;                           ///< and for the end of a tile
  double efficiency = 0;                       ///< instead of the two: share of the dense peak that a full chip reaches
  double fp32_efficiency = 0;                  ///< the same of fp32 by three products in tf32; 0: as efficiency
  std::optional<CudaGemmCondition> first_for;  ///< absent: it is ranked by its time
};

struct CudaGemmPipeline {
  Pipeline pipeline = Pipeline::mma_sm80;
  Instruction instruction = Instruction::mma_sync;
  std::vector<DataType> data_types;  ///< of A and B
  std::vector<DataType> weights;     ///< of B beside an fp16 or bf16 A: int8, int4
  std::vector<CudaGemmTile> tiles;   ///< those with first_for in order of preference
};

/// What a stream of few rows (skinny_tma) takes by one instruction.
struct CudaGemmStream {
  double launch_us = 0;
  double box_ns = 0;                 ///< that a box of 128 bytes of k takes the copy engine at least
  double converted_column_ns = 0;    ///< at least, of a box for each column of 8-bit floats beside more than 16 rows
  double end_us = 0;                 ///< of a group of columns
  double sum_ns = 0;                 ///< more for each of its sums, beside more than 16 rows
  double pair_bytes_per_second = 0;  ///< that two SMs which share a way read from memory
  double between = 1;                ///< share of it with one block for each of half to three quarters of the SMs
  double memory = 1;                 ///< share of memory's time at the rate that is usually reached
  double power = 3;                  ///< in which memory's time and the SMs' are joined
  double fp8 = 1;                    ///< factor of what up to 16 rows of 8-bit floats take; more were not measured
  double others = 1;                 ///< and of what those of other types take
};

/// Two SMs that share a way (a TPC) to memory: what they read of it when it is in no cache, and as how many blocks an
/// SM's block counts that reads columns of B which no other block reads.
struct CudaGemmPair {
  double bytes_per_second = 0;  ///< of both; 0: not known
  double alone = 1;             ///< the other SM is idle
  double soon_shared = 1;       ///< it is, but the next launch's blocks of a stream come beside busy SMs
  double shared = 2;            ///< the other SM reads columns of its own
  double copies_once = 2;       ///< the same in clusters that copy A once, which leaves more of the way to B
};

/// Three rows of tiles and more in one round, whose blocks ask for the same panels at about one time.
struct CudaGemmOneRound {
  double power = 0;       ///< in which memory's time and the blocks' are joined
  double step = 1;        ///< share of what a tile of one warpgroup takes
  double large_step = 1;  ///< and larger ones, which are bound by their products
};

/// Products that take long: of what they are said to take beyond `us`, at most as long again, tiles whose warpgroups
/// share them take this share more than those in turns.
struct CudaGemmLong {
  double us = 0, shared_more = 0;
};

/// How much of the shorter of the two times is hidden, that of the blocks and that of memory: the power in which both
/// are joined (choose/overlapped.hpp). The higher, the more.
struct CudaGemmOverlap {
  double tiles = 0;     ///< whole tiles: nearly all
  double parts = 0;     ///< parts of k, which begin and end together
  double two_rows = 0;  ///< two rows of tiles in several rounds, which read a panel of B at about one time, or twice
};

struct CudaGemmSpec {
  CudaGemmOverlap overlap;
  /// What a block adds for parts of a tile that it leaves or reads: a fence, a counter and a barrier, and the bytes at
  /// the rate at which one SM reads from the L2 cache. Estimated.
  double join_us = 0, join_bytes_per_second = 0;
  /// The same where the blocks of a cluster exchange partials: barriers, and the bytes that a block receives at the
  /// rate at which SMs write to each other's shared memory.
  double cluster_join_us = 0, cluster_join_bytes_per_second = 0;
  /// Nanoseconds that a row of a transposed tile's share takes which is stored by pairs, not as a box.
  double cluster_pairs_ns = 0;
  /// The share of the chip's SMs that run clusters of two, three, ... blocks at a time: a cluster's SMs are neighbours,
  /// and what is left of a neighbourhood stays idle. Of sizes beyond the list, as for its last; empty: all SMs.
  std::vector<double> cluster_sms;
  /// The share of the dense peak that is predicted for a tile of which the table says nothing: of a config that was
  /// made by hand, or of a row without figures.
  double efficiency_without_row = 0;
  /// Of 8-bit integers, which draw less power, a step of tiles that take turns lasts this share of step_us where k is
  /// at most `int8_ping_pong_k`. 1: there is no such effect.
  double int8_ping_pong_step = 1, int8_ping_pong_k = 0;
  /// Microseconds that a tile in turns takes longer than one that its warpgroups share, where its SM has no other.
  double lone_turn_us = 0;
  /// Nanoseconds a stage takes at least for each row of 128 bytes of operands where every SM asks for some: the rate at
  /// which an SM reads from the L2 cache. Clusters change nothing of it. 0: other things bound every tile.
  double row_ns = 0;
  /// The same where no SM reads the columns of B that another does: of a round of one row of tiles, and of clusters
  /// that share tiles by k. At least `row_ns`.
  double apart_row_ns = 0;
  std::optional<CudaGemmLong> long_products;  ///< absent: they are as others
  CudaGemmPair pair;
  std::optional<CudaGemmOneRound> one_round;  ///< absent: such a round is as others
  CudaGemmStream mma_stream, wgmma_stream;
  /// Nanoseconds a stage takes at least for each row of operands that a block asks for where every SM does, and rows
  /// are no multiple of 32 bytes: the 128 bytes of a step lie in five sectors of every second row then, not four.
  double straddle_ns = 0;
  /// Nanoseconds more for such a row in the step that k ends within.
  double cut_straddle_ns = 0;
  /// Of a step, wgmma templates ask for B before A in products of at most so many rows: B comes from memory then, A
  /// from the L2 cache. 0: never.
  double b_first_m = 0;
  /// Blocks that begin one after another and stand on SMs of one GPC: what these read in common passes L2 once. 0: not
  /// known.
  int neighbours = 0;
  /// Blocks that a launch of one round begins as a cluster, though they share nothing in it: so they stand on SMs of
  /// one GPC whichever of these the kernel before leaves first, and that kernel need not start them late. And the share
  /// of step_us that a step of theirs takes. 0: there are none.
  int placed_blocks = 0;
  double placed_step = 1;
  /// They let the next kernel start when blocks end where two rows of tiles and more, but in several rounds so many at
  /// most, share columns of B, and tiles have so many steps of k at least. Measured: docs/cuda_gemm.md, "When the next
  /// kernel starts". 0: never.
  double next_at_end_rows = 0, next_at_end_steps = 0;
  /// Of mma_sm80: the share of a step's time that a block takes which has its SM to itself, where tiles are meant for
  /// several; what a block adds for parts of a tile, and for each that it reads; nanoseconds of a load of a thread that
  /// brings one element of 8 or 16 bits, where rows are not aligned.
  double portable_alone = 1, portable_join_us = 0, portable_part_us = 0, portable_load_ns = 0;
  double transpose_us = 0;  ///< microseconds a stage takes longer for each 128 rows of operands that are transposed
  double turned_us = 0;     ///< microseconds that a warpgroup takes to turn 64 x 64 sums of a transposed tile as floats
  double pad_us = 0;  ///< what a launch in front takes that copies A and B to rows of whole 16 bytes, beside its bytes
  double scale_us = 0;  ///< and for block scales, which wait for its products, where a block has its SM alone
  /// A product of more work has a launch of its own in a list: single products have faster kernels than lists. On an
  /// H200 16 products of 0.6 to 3.1 GFLOP took 251 us in one launch of mma_sm80 and 227 us in a loop; 64 of at most 0.1
  /// GFLOP 305 and 942 us. Absent: there is no such limit.
  std::optional<double> list_gflop;
  std::vector<GemmEpilogue> epilogues;  ///< those that listings hold; dispatch makes any
  std::vector<CudaGemmPipeline> pipelines;

  /// Null when the architecture does not offer the pipeline.
  [[nodiscard]] const CudaGemmPipeline* pipeline(Pipeline pipeline) const;
};

[[nodiscard]] Result<CudaGemmSpec> read_cuda_gemm(const JsonReader& reader);

/// Of "epilogues" and of "pipelines"; pipelines made for the chip come before mma_sm80.
[[nodiscard]] Result<std::vector<GemmEpilogue>> read_cuda_epilogues(const JsonReader& reader);
[[nodiscard]] Result<std::vector<CudaGemmPipeline>> read_cuda_pipelines(const JsonReader& reader);

}  // namespace tilesmith
