// Facts about NVIDIA architectures (specs/cuda/*.json): limits of a block and of an SM, matrix instructions, rates for
// the cost model, and the tiles worth trying, with those that measurement found best.
//
// An architecture is what a compiler is told: sm_90a is compute capability 9.0 and runs on no other; sm_80 also runs on
// later capabilities of the same major number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/cuda/attention_backward.hpp"
#include "spec/cuda/attention_model.hpp"
#include "spec/cuda/conv.hpp"
#include "spec/cuda/gemm.hpp"
#include "spec/cuda/range.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/arch_name.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// Problems for which a tile is the first choice; an absent part holds for all.
struct CudaTileCondition {
  std::optional<std::vector<DataType>> data_types;
  std::optional<bool> masked;
  std::optional<bool> uneven;  ///< packed sequences, or keys in pages
  std::optional<bool> dropout;
  std::optional<BiasKind> bias;
  std::optional<CudaRange> seqlen_k;
};

/// One tile of the tile table, and how it is worked on. The fields are those of Algorithm.
struct CudaTile {
  int tile_m = 0;  ///< query rows of a block of threads
  int tile_n = 0;  ///< keys of a step
  int stages = 0;  ///< warp_specialized; mma_sm80 has none of these
  int q_stages = 1;
  int bias_stages = 0;
  int blocks_per_sm = -1;
  bool ping_pong = false;
  bool dynamic_scheduler = false;
  bool late_wait = false;
  bool late_store = false;
  bool fp8 = false;                            ///< for 8-bit inputs, and no others
  CudaRange head_dim;                          ///< of the larger head dim
  std::optional<CudaRange> head_dim_v;         ///< a further limit
  double efficiency = 0;                       ///< share of the dense peak that a long problem reaches
  double round_us = 1;                         ///< of a tile beside its steps: its first copies, its last products
  std::optional<CudaTileCondition> first_for;  ///< absent: an alternative, never the first choice
};

/// What a launch takes whose clusters have an item's pieces each, and when one may be chosen.
struct CudaDecodeClusterModel {
  double join_us = 0;           ///< of a cluster's blocks, beside what they read of each other
  double bytes_per_second = 0;  ///< at which one reads of the others
  double step = 0;              ///< of a block that has an SM for itself, in times that a copy is under way: of tensors
  double list_step = 0;         ///< ... and where pages are looked up
  double list_start = 0;        ///< what is left of a list's start, as a share of it
  /// Where sequences differ in length, the most that a cluster may take for the longest, in times of what pieces of a
  /// list would, if it were alone.
  double may_take = 0;
  /// The most that a cluster may take, in times of what others' ways should; and of how many items, where tiles of rows
  /// read the same keys (docs/log/2026-11-cuda-decode.md).
  double share = 0;
  int items_of_many_rows = 0;
};

/// How the pieces of a list are cut, whose sequences differ in length.
struct CudaDecodeListModel {
  /// Of the shortest that there are: keys, and blocks of keys. Shorter ones take longer to start and to join than they
  /// gain.
  int piece_keys = 0;
  int piece_steps = 0;
  /// Of the blocks, the share that must have work where all sequences have one length and each block has one piece or
  /// whole items; with less, pieces are shared out as elsewhere.
  double busy = 0;
  /// What is left of list_us where every piece has a block by its place in the grid: lengths and pages are looked up. 0
  /// where kernels have no such entry.
  double grid_us = 0;
};

/// What a launch that cuts keys into pieces takes beside its bytes and products, in microseconds.
struct CudaDecodeModel {
  double start_us = 0;               ///< until its first keys have come, beside what any launch takes
  double turn_us = 0;                ///< for each time that blocks fill the chip anew
  double copy_us = 0;                ///< that a copy is under way, which bounds what a block alone reads
  double join_us = 0;                ///< of an item's last arriver
  double part_us = 0;                ///< for each partial that it reads
  double join_bytes_per_second = 0;  ///< at which it reads them
  double join_launch_us = 0;         ///< of a launch that joins all items, beside the loads of a row
  double part_bytes_per_second = 0;  ///< at which all partials are written and read
  double sm_bytes_per_second = 0;    ///< that an SM reads at most
  double bandwidth_share = 0;        ///< that the copies reach of the chip's reached_bandwidth; some reach more
  double list_us = 0;                ///< of a list, for each 64 keys of a step: its pages are looked up before it comes
  double narrow_step_us = 0;         ///< of a step of keys of 8 bits
  double narrow_key_us = 0;  ///< ... and of each of a warp's keys of it, for each block of the SM: they are widened
  double narrow_share = 1;   ///< that their copies reach of the chip's reached_bandwidth
  CudaDecodeListModel list;
  int prefetch_bytes = 0;  ///< that a block of tensors has L2 fetch before the launch before has ended
  /// Launches of tensors that take longer, and of which some blocks end long before others, let the next one start when
  /// they have ended.
  double overlapped_us = 0;
  std::optional<CudaDecodeClusterModel> cluster;  ///< absent: no clusters join
};

/// Blocks of keys that are short, of kernels of tiles of queries.
struct CudaShortSteps {
  int bytes = 0;  ///< less than so many are read more slowly
  /// Of so many elements of a row of 64 or 128 at most, where tiles follow one another and others of the SM multiply
  /// meanwhile, the first copies come in the time of the last tile; for the head dims that were measured.
  int elements = 0;
  CudaRange head_dim;
};

/// What a kernel of tiles of queries takes where one tile holds a key head's queries.
struct CudaFewQueriesModel {
  double start_us = 0;             ///< beside what any launch takes
  double fill_us = 0;              ///< until the first copies have come where blocks are on all SMs
  double turn_us = 0;              ///< from one tile of a block to the next, where no copies are under way meanwhile
  double step_us = 0;              ///< of a block of keys, beside its bytes
  double short_copies = 0;         ///< times as long as its bytes, where they are few
  double sm_bytes_per_second = 0;  ///< at which a block of threads alone reads them
  double bandwidth_share = 0;      ///< of the chip's reached_bandwidth, by blocks on all SMs; tiles at a time are whole
  double shared_reads = 0;         ///< tiles of one key head that read its keys in the time of one
  CudaShortSteps short_steps;
};

struct CudaAttentionPipeline {
  Pipeline pipeline = Pipeline::mma_sm80;
  Instruction instruction = Instruction::mma_sync;
  std::vector<DataType> data_types;
  std::vector<int> pack_gqa;  ///< listed; 1 first
  /// The first choice packs heads where its tiles are then at most this share of what they are without; 0 where no
  /// heads are packed.
  double pack_gqa_share = 0;
  /// Its kernels have run and been checked on such a chip. Others are candidates behind all that have.
  bool tested = true;
  std::optional<CudaDecodeModel> decode;         ///< of pipelines that cut keys, and no others
  std::optional<CudaDecodeModel> decode_latent;  ///< of latent rows, where theirs differ
  /// Of other pipelines, where it was fitted; else attention_fwd.model holds for few queries too.
  std::optional<CudaFewQueriesModel> few_queries;
  std::vector<CudaTile> tiles;  ///< in order of preference: of those that are first for a problem the first one wins
};

struct CudaInstruction {
  Instruction instruction = Instruction::mma_sync;
  std::vector<DataType> data_types;
};

/// A chip of the architecture whose public figures stand for it in estimates.
struct CudaReferenceChip {
  std::string chip;
  int sms = 0;
  long l2_bytes = 0;
  double bytes_per_second = 0;
  double reached_bandwidth = 0;                     ///< share of bytes_per_second that a stream through memory reaches
  double launch_us = 0;                             ///< microseconds that any launch takes
  std::vector<std::pair<DataType, double>> tflops;  ///< dense, sums in fp32

  /// Of a stream of so many bytes.
  [[nodiscard]] double memory_seconds(double bytes) const { return bytes / (bytes_per_second * reached_bandwidth); }
  [[nodiscard]] double launch_seconds() const { return 1e-6 * launch_us; }
  /// TFLOP/s with inputs of this type, of fp32 by three products in tf32; 0 where the chip has no such instruction.
  [[nodiscard]] double tflops_of(DataType type) const;
};

/// What a launch takes that copies attention's rows, and how many bytes a second it reads and writes, both counted.
struct CudaRowCopies {
  double launch_us = 0;
  double bytes_per_second = 0;
};

struct CudaSpec {
  ArchName arch;
  std::string about;
  std::string source;   ///< where the figures come from
  bool tested = false;  ///< its kernels have run and been checked on such a chip
  int major = 0;        ///< compute capability
  int minor = 0;
  int warp_size = 0;
  int threads_per_block = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int registers_per_sm = 0;
  int registers_per_thread = 0;
  int registers_per_warp_step = 0;  ///< registers are given to warps in this many
  long shared_bytes_per_sm = 0;
  long shared_bytes_per_block = 0;  ///< with opt-in
  long shared_bytes_reserved = 0;   ///< the system's own, of each block
  CudaReferenceChip reference;
  std::vector<CudaInstruction> instructions;
  int head_dim_min = 0;
  int head_dim_max = 0;
  int head_dim_step = 0;                               ///< of 16-bit elements: 16 bytes
  int head_dim_listed_max = 0;                         ///< listings end here
  std::vector<std::pair<int, int>> unequal_head_dims;  ///< (head_dim_qk, head_dim_v) pairs listed beside the equal ones
  std::vector<CudaAttentionPipeline> attention_fwd;    ///< fastest first
  std::optional<CudaRowCopies> row_copies;             ///< absent: those of GEMM's rows, at the chip's bandwidth
  double append_us = 0;  ///< by which a call is longer whose new keys are written by a kernel of its own
  std::optional<CudaAttentionModel> attention_model;  ///< absent: the tile table orders, rates predict
  std::vector<CudaBackwardPipeline> attention_bwd;    ///< empty: no kernels of attention backward
  CudaGemmSpec gemm;
  CudaConvSpec conv;

  /// Runs on its own compute capability only: the name ends in a letter.
  [[nodiscard]] bool is_chip_specific() const;
  /// Null when the architecture does not offer the pipeline.
  [[nodiscard]] const CudaAttentionPipeline* attention_pipeline(Pipeline pipeline) const;
};

/// All architectures, by compute capability. The first error in a spec is returned with file, path and value.
[[nodiscard]] Result<std::vector<CudaSpec>> load_cuda_specs();

/// One spec from JSON text; `file` is used in errors.
[[nodiscard]] Result<CudaSpec> parse_cuda_spec(std::string_view file, std::string_view text);

/// The architecture whose kernels a device of this compute capability runs: the one made for it, else the highest of
/// the same major number whose minor is not larger. Errors: unsupported, naming what is known.
[[nodiscard]] Result<const CudaSpec*> spec_for(const std::vector<CudaSpec>& specs, int major, int minor);

}  // namespace tilesmith
