// Algorithm: how a kernel computes its signature. One struct for all operations and vendors; a field an operation does
// not use keeps its default, and the enumeration never varies it.
//
//   field   attention                                             GEMM, convolution
//   tile    m0 n0 k0 n1 k1 k0max (backward dq_dk_dv: nine)         m n k
//   wave    waves along m n k of each GEMM (up to three)           m n k
//   warp    matrix fragment m n k of each GEMM                     m n k
//   pad     query length, key length, head_dim_qk, head_dim_v     m n k
// A CPU attention kernel uses m0 (query rows of a task) and n0 (keys of a block) only; an NVIDIA kernel the same two,
// of a block of threads. A CPU GEMM's tile is the rows and columns of a task and the elements of k between two visits
// of its sums; an NVIDIA GEMM's is that of a block of threads, k of one stage, and `wave` counts the warpgroups
// (mma_sm80: warps) along m and n; for skinny kernels it counts the warps along k. An own AMD GEMM's tile is that of a
// block, k of one stage; `wave` counts the waves along m and n, `warp` is the matrix instruction's fragment.
//
// A default value is part of the format of keys (canonical.hpp): a changed default gives kernels other keys.
#pragma once

#include <array>
#include <cstdint>

#include "vocabulary/enum_table.hpp"

namespace tilesmith {

/// The instruction that multiplies matrix fragments.
enum class Instruction : std::uint8_t {
  automatic,  ///< left to the backend's compiler
  fma_f32,    ///< vector fused multiply-add in fp32
  dpbf16,     ///< AVX512-BF16 vdpbf16ps
  amx_bf16,   ///< AMX tdpbf16ps
  amx_int8,   ///< AMX tdpb*d
  mma_sync,   ///< NVIDIA sm_80 warp-level matrix instruction
  wgmma,      ///< NVIDIA sm_90a warpgroup matrix instruction
  mfma,       ///< AMD CDNA
  wmma,       ///< AMD RDNA
  dot_int16,  ///< pairs of 16-bit integers, vpmaddwd (AVX2, AVX-512)
  dot_int8,   ///< fours of 8-bit integers, AVX512-VNNI vpdpbusd
};
template <>
struct EnumTable<Instruction> {
  static constexpr std::string_view kWhat = "instruction";
  static constexpr auto kNames = enum_names<Instruction>({{Instruction::automatic, "auto"},
                                                          {Instruction::fma_f32, "fma"},
                                                          {Instruction::dpbf16, "dpbf16"},
                                                          {Instruction::amx_bf16, "amxbf16"},
                                                          {Instruction::amx_int8, "amxint8"},
                                                          {Instruction::mma_sync, "mma"},
                                                          {Instruction::wgmma, "wgmma"},
                                                          {Instruction::mfma, "mfma"},
                                                          {Instruction::wmma, "wmma"},
                                                          {Instruction::dot_int16, "int16dot"},
                                                          {Instruction::dot_int8, "vnni"}});
};

enum class Pipeline : std::uint8_t {
  // Tilesmith's own kernels. Which kernels are whose says KernelConfig::origin, never a value's place in this list.
  flash,             ///< rows on one side of the scores stream past a block of those on the other
  decode,            ///< few query rows; the keys are split over tasks (NVIDIA: blocks) and their partials combined
  decode_wgmma,      ///< NVIDIA Hopper: decode with products of 64 rows, fed by a producer warpgroup
  warp_specialized,  ///< NVIDIA Hopper: producer and consumer warpgroups
  mma_sm80,          ///< NVIDIA sm_80 and newer
  blocked,           ///< CPU, GEMM: both matrices packed into blocks for the caches
  skinny,            ///< GEMM: few rows of A; B is read once, as it lies
  skinny_tma,        ///< NVIDIA Hopper, GEMM: skinny, with the copy engine bringing B
  weight_only,       ///< NVIDIA Hopper, GEMM: warp-specialised, integer weights unpacked into registers
  lds,               ///< AMD, GEMM: tiles pass through registers into local memory, ahead of the matrix unit
  generic,           ///< CPU: every trait and size at run time; slower than the others, and serves what they do not
  rowwise,           ///< NVIDIA: a pass over rows before or after the products, without a matrix instruction
  // Composable Kernel, attention
  qr,
  qr_async,
  qr_async_trload,
  qr_async_trload_v3,
  qs,
  v3,
  qr_pagedkv,
  qr_nwarp_sshuffle,
  splitkv_combine,
  appendkv,
  bwd,
  // Composable Kernel, GEMM and convolution
  mem,
  compv1,
  compv2,
  compv3,
  compv4,
  compv5,
  compv6,
  comp_async,
  comp_tdm,
  comp_tdm_v2,
  preshufflev2,
  basic_v1,
  basic_async_v1,
  wavelet,
  depthwise,
  grouped,    ///< NVIDIA, convolution: groups of 2, 4, 8 or 16 channels on tensor cores
  halo,       ///< NVIDIA Hopper, convolution: pixels come to shared memory once for all taps
  stem,       ///< NVIDIA, convolution: images of 1 to 4 channels on tensor cores
  direct,     ///< convolution of few channels: NVIDIA, pixels of a box come once for all taps; CPU, pixels along lanes
  pointwise,  ///< NVIDIA, convolution: few channels and one tap, pixels from memory straight to tensor cores
};
template <>
struct EnumTable<Pipeline> {
  static constexpr std::string_view kWhat = "pipeline";
  static constexpr auto kNames = enum_names<Pipeline>({{Pipeline::flash, "flash"},
                                                       {Pipeline::decode, "decode"},
                                                       {Pipeline::decode_wgmma, "decode_wgmma"},
                                                       {Pipeline::warp_specialized, "warpspec"},
                                                       {Pipeline::mma_sm80, "mma_sm80"},
                                                       {Pipeline::blocked, "blocked"},
                                                       {Pipeline::skinny, "skinny"},
                                                       {Pipeline::skinny_tma, "skinny_tma"},
                                                       {Pipeline::weight_only, "weight_only"},
                                                       {Pipeline::lds, "lds"},
                                                       {Pipeline::generic, "generic"},
                                                       {Pipeline::rowwise, "rowwise"},
                                                       {Pipeline::qr, "qr"},
                                                       {Pipeline::qr_async, "qr_async"},
                                                       {Pipeline::qr_async_trload, "qr_async_trload"},
                                                       {Pipeline::qr_async_trload_v3, "qr_async_trload_v3"},
                                                       {Pipeline::qs, "qs"},
                                                       {Pipeline::v3, "v3"},
                                                       {Pipeline::qr_pagedkv, "qr_pagedkv"},
                                                       {Pipeline::qr_nwarp_sshuffle, "qr_nwarp_sshuffle"},
                                                       {Pipeline::splitkv_combine, "splitkv_combine"},
                                                       {Pipeline::appendkv, "appendkv"},
                                                       {Pipeline::bwd, "bwd"},
                                                       {Pipeline::mem, "mem"},
                                                       {Pipeline::compv1, "compv1"},
                                                       {Pipeline::compv2, "compv2"},
                                                       {Pipeline::compv3, "compv3"},
                                                       {Pipeline::compv4, "compv4"},
                                                       {Pipeline::compv5, "compv5"},
                                                       {Pipeline::compv6, "compv6"},
                                                       {Pipeline::comp_async, "comp_async"},
                                                       {Pipeline::comp_tdm, "comp_tdm"},
                                                       {Pipeline::comp_tdm_v2, "comp_tdm_v2"},
                                                       {Pipeline::preshufflev2, "preshufflev2"},
                                                       {Pipeline::basic_v1, "basic_v1"},
                                                       {Pipeline::basic_async_v1, "basic_async_v1"},
                                                       {Pipeline::wavelet, "wavelet"},
                                                       {Pipeline::depthwise, "depthwise"},
                                                       {Pipeline::grouped, "grouped"},
                                                       {Pipeline::halo, "halo"},
                                                       {Pipeline::stem, "stem"},
                                                       {Pipeline::direct, "direct"},
                                                       {Pipeline::pointwise, "pointwise"}});
};

/// Whether the pipeline cuts the keys of a sequence into pieces.
[[nodiscard]] constexpr bool is_decode(Pipeline pipeline) {
  return pipeline == Pipeline::decode || pipeline == Pipeline::decode_wgmma;
}

enum class Scheduler : std::uint8_t { automatic, intrawave, interwave };
template <>
struct EnumTable<Scheduler> {
  static constexpr std::string_view kWhat = "scheduler";
  static constexpr auto kNames = enum_names<Scheduler>(
      {{Scheduler::automatic, "default"}, {Scheduler::intrawave, "intrawave"}, {Scheduler::interwave, "interwave"}});
  static constexpr EnumName<Scheduler> kAliases[] = {{Scheduler::automatic, "auto"}};
};

enum class Epilogue : std::uint8_t { plain, cshuffle, permute_n, tdm };
template <>
struct EnumTable<Epilogue> {
  static constexpr std::string_view kWhat = "epilogue";
  static constexpr auto kNames = enum_names<Epilogue>({{Epilogue::plain, "default"},
                                                       {Epilogue::cshuffle, "cshuffle"},
                                                       {Epilogue::permute_n, "permute_n"},
                                                       {Epilogue::tdm, "tdm"}});
};

/// Which of several tiles with the same figures an AMD backward kernel uses.
enum class TileTag : std::uint8_t { none, trload, small, bn192, g1 };
template <>
struct EnumTable<TileTag> {
  static constexpr std::string_view kWhat = "tile tag";
  static constexpr auto kNames = enum_names<TileTag>({{TileTag::none, "none"},
                                                      {TileTag::trload, "trload"},
                                                      {TileTag::small, "small"},
                                                      {TileTag::bn192, "bn192"},
                                                      {TileTag::g1, "g1"}});
};

struct Algorithm {
  Pipeline pipeline = Pipeline::qr;
  Instruction instruction = Instruction::automatic;
  Scheduler scheduler = Scheduler::automatic;
  Epilogue epilogue = Epilogue::plain;
  std::array<std::uint16_t, 9> tile{};
  std::array<std::uint16_t, 9> wave{};
  std::array<std::uint16_t, 9> warp{};
  std::array<std::uint8_t, 4> pad{};  ///< 0 no, 1 yes, 8 "alignment of eight elements" (AMD backward)
  TileTag tag = TileTag::none;
  std::uint8_t stages = 0;         ///< buffers of the software pipeline; 0 where the pipeline fixes it
  std::uint8_t q_stages = 1;       ///< 2: the next tile's queries are loaded while a tile is worked on
  std::uint8_t bias_stages = 0;    ///< blocks of an elementwise bias in flight; 0: it is read element by element
  std::uint8_t pack_gqa = 1;       ///< query heads of one key head that share a tile
  std::int16_t block_per_cu = -1;  ///< occupancy asked of the compiler; -1 leaves it alone
  std::array<std::uint8_t, 2> cluster = {1, 1};  ///< NVIDIA GEMM: blocks along m and n that share what they load
  std::uint8_t cluster_k = 1;  ///< NVIDIA GEMM: blocks of a cluster that share a tile by k and exchange partials
  std::uint8_t wave_groups = 1;
  std::uint8_t max_splits_log2 = 0;
  std::uint16_t max_seqlen_q = 0;
  bool use_trload = false;
  bool split_k = false;  ///< GEMM: k may be cut into parts, whose partials are added in a fixed order
  /// GEMM, with split_k: partials are added in the order they are ready, so that bits may differ from run to run
  bool split_k_atomic = false;
  bool stream_k = false;  ///< GEMM: blocks share the tiles of the last rounds by equal runs of k
  /// NVIDIA GEMM: the kernel reads B before the preceding kernel has ended; that kernel must not write B
  bool prefetch_weights = false;
  bool packed_b = false;  ///< CPU GEMM: B is read as a pack_b kernel has packed it
  bool persistent = false;
  bool ping_pong = false;          ///< two consumer groups take turns at the matrix unit
  bool dynamic_scheduler = false;  ///< persistent blocks take their tiles from a counter, not by a fixed stride
  bool late_wait = false;          ///< attention waits for P x V in the middle of the next block's exponentials
  bool late_store = false;         ///< a tile's output is stored while the next tile's second block is scored
  bool double_buffer = false;
  bool preshuffle = false;  ///< Composable Kernel: B is re-ordered beforehand
  bool transpose_c = false;
  bool explicit_gemm = false;
  std::array<std::uint8_t, 3> vector{};  ///< elements per access to A, B, C; 0 leaves the default
  std::uint8_t groups_merged = 1;
  std::array<std::uint8_t, 2> subtile{};  ///< depthwise: rows, columns of outputs a lane owns
  std::uint8_t images = 0;                ///< depthwise: images a block handles

  /// Whether the same call gives the same bits every time.
  [[nodiscard]] constexpr bool is_bitwise() const { return !split_k_atomic; }

  friend bool operator==(const Algorithm&, const Algorithm&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("pipeline", self.pipeline);
    visit("instruction", self.instruction);
    visit("scheduler", self.scheduler);
    visit("epilogue", self.epilogue);
    visit("tile", self.tile);
    visit("wave", self.wave);
    visit("warp", self.warp);
    visit("pad", self.pad);
    visit("tag", self.tag);
    visit("stages", self.stages);
    visit("q_stages", self.q_stages);
    visit("bias_stages", self.bias_stages);
    visit("pack_gqa", self.pack_gqa);
    visit("block_per_cu", self.block_per_cu);
    visit("cluster", self.cluster);
    visit("cluster_k", self.cluster_k);
    visit("wave_groups", self.wave_groups);
    visit("max_splits_log2", self.max_splits_log2);
    visit("max_seqlen_q", self.max_seqlen_q);
    visit("use_trload", self.use_trload);
    visit("split_k", self.split_k);
    visit("split_k_atomic", self.split_k_atomic);
    visit("stream_k", self.stream_k);
    visit("prefetch_weights", self.prefetch_weights);
    visit("packed_b", self.packed_b);
    visit("persistent", self.persistent);
    visit("ping_pong", self.ping_pong);
    visit("dynamic_scheduler", self.dynamic_scheduler);
    visit("late_wait", self.late_wait);
    visit("late_store", self.late_store);
    visit("double_buffer", self.double_buffer);
    visit("preshuffle", self.preshuffle);
    visit("transpose_c", self.transpose_c);
    visit("explicit_gemm", self.explicit_gemm);
    visit("vector", self.vector);
    visit("groups_merged", self.groups_merged);
    visit("subtile", self.subtile);
    visit("images", self.images);
  }
};

}  // namespace tilesmith
