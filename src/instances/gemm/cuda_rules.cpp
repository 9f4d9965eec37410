// What the templates of kernels/cuda/gemm carry, and what a chip holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "instances/gemm/cuda.hpp"
#include "instances/gemm/family.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/canonical.hpp"

namespace tilesmith {
namespace {

using Subject = CudaGemmSubject;

bool is_among(DataType type, std::initializer_list<DataType> types) {
  return std::ranges::find(types, type) != types.end();
}
bool is_wide_float(DataType type) {
  return is_among(type, {DataType::fp32, DataType::fp16, DataType::bf16});
}
bool is_few_rows(const Subject& s) {
  return s.algorithm().pipeline == Pipeline::skinny_tma || s.algorithm().pipeline == Pipeline::skinny;
}
bool is_wgmma_stream(const Subject& s) {
  return s.algorithm().pipeline == Pipeline::skinny_tma && s.algorithm().instruction == Instruction::wgmma;
}
bool is_warp_specialized(const Subject& s) {
  return s.algorithm().pipeline == Pipeline::warp_specialized;
}
bool is_mixed(const Subject& s) {
  return s.algorithm().pipeline == Pipeline::weight_only;
}
int element_bytes(const Subject& s) {
  return std::max(bits_of(s.signature().a) / 8, 1);
}
int result_bytes(const Subject& s) {
  return std::max(bits_of(s.signature().c) / 8, 1);
}

bool types_fit(const Subject& s) {
  const GemmSignature& g = s.signature();
  const bool integers = g.a == DataType::int8, whole = g.c == DataType::int32;
  if (g.a != g.b && !(is_fp8(g.a) && is_fp8(g.b)) && !has_weights(g)) return false;
  if (g.accumulator != (integers ? DataType::int32 : DataType::fp32)) return false;
  if (whole)
    return integers && g.aux == DataType::int32 &&
           std::ranges::all_of(g.epilogue_ops, [](EpilogueOp op) { return op == EpilogueOp::add; });
  const auto result = [&](DataType type) { return is_wide_float(type) || is_fp8(type); };
  if (!result(g.c) && !(integers && g.c == DataType::int8)) return false;
  return (result(g.aux) || g.aux == DataType::int8) && is_wide_float(g.bias);
}

/// The first operation that the kernels have only elsewhere in a list; `none` if there is none.
EpilogueOp uncarried(const GemmEpilogue& epilogue) {
  bool gated = false;
  for (std::size_t i = 0; i < epilogue.size(); ++i) {
    const EpilogueOp op = epilogue[i];
    if ((op == EpilogueOp::amax && i + 1 != epilogue.size()) || (is_gate(op) && gated)) return op;
    gated |= is_gate(op);
  }
  return EpilogueOp::none;
}

bool tile_is_whole(const Subject& s) {
  const Algorithm& a = s.algorithm();
  const int m = s.tile_m(), n = s.tile_n();
  if (std::ranges::any_of(std::span(a.tile).subspan(3), [](int v) { return v != 0; })) return false;
  if (std::ranges::any_of(std::span(a.wave).subspan(3), [](int v) { return v != 0; })) return false;
  if (is_warp_specialized(s)) {
    const int groups = a.wave[0];
    if (groups < 1 || groups > 3 || a.wave[1] != 0 || a.wave[2] != 0) return false;
    // What the 64 rows of wgmma are, and what its columns are.
    const int rows = a.transpose_c ? n : m, columns = a.transpose_c ? m : n;
    const int across = warpgroups_across(a), own = a.ping_pong ? rows : rows * across / groups;
    const bool whole = a.ping_pong ? groups == 2 : rows * across % groups == 0;
    // wgmma of integers has no odd number of eights from 32 columns on; of others only transposed tiles have it.
    const int own_columns = columns / across;
    const int step = a.transpose_c && own_columns >= 80 && s.signature().a != DataType::int8 ? 8 : 16;
    return whole && own >= 64 && own % 64 == 0 && rows <= 256 && own_columns >= 16 * across &&
           columns % (step * across) == 0 && columns <= 256;
  }
  if (is_mixed(s)) {
    const int groups = a.wave[0];
    return groups >= 1 && groups <= 3 && a.wave[1] == 0 && a.wave[2] == 0 && n == 64 * groups &&
           (m == 16 || m == 32 || m == 64 || m == 128 || m == 192 || m == 256);
  }
  if (is_few_rows(s)) {
    const int warps = a.wave[2], most_m = a.pipeline == Pipeline::skinny_tma ? 64 : 16;
    // wgmma's columns are the rows of A; those that integers have, too.
    if (is_wgmma_stream(s) &&
        (warps % 4 != 0 || n % (16 * std::max(warps, 4)) != 0 || (m > 16 && m != 24 && m % 16 != 0)))
      return false;
    return m >= 8 && m % 8 == 0 && m <= most_m && n >= 8 && n % 8 == 0 && n <= 256 && a.wave[0] == 1 &&
           a.wave[1] == 1 && warps >= 1 && warps <= 31;
  }
  const int along_m = a.wave[0], along_n = a.wave[1];
  return along_m >= 1 && along_n >= 1 && along_m * along_n <= 32 && a.wave[2] == 0 && m >= 16 && m <= 256 && n >= 16 &&
         n <= 256 && m % (16 * along_m) == 0 && n % (16 * along_n) == 0;
}

/// Elements of k that a stage of the pipeline may have: multiples, and the most.
std::pair<int, int> stage_step(const Subject& s) {
  if (is_mixed(s)) return {64, 1024 / std::max(bits_of(s.signature().b), 1)};  // 128 bytes of weights
  const int bytes = is_warp_specialized(s) || s.algorithm().pipeline == Pipeline::skinny_tma ? 128 : 64;
  const bool by_b = s.algorithm().pipeline == Pipeline::skinny;  // a lane's 16 bytes of B say how much of A goes along
  const int step = by_b ? 8 * bytes / std::max(bits_of(s.signature().b), 1) : bytes / element_bytes(s);
  return {step, s.algorithm().pipeline == Pipeline::skinny_tma ? 16 * step : step};
}

bool stage_is_whole(const Subject& s) {
  const auto [step, most] = stage_step(s);
  if (s.tile_k() < step || s.tile_k() > most || s.tile_k() % step != 0) return false;
  if (is_mixed(s)) return std::has_single_bit(static_cast<unsigned>(s.tile_k()));  // rows that are swizzled
  return s.algorithm().pipeline != Pipeline::skinny_tma || is_wgmma_stream(s) ||
         4 * (s.tile_k() / step) % std::max<int>(s.algorithm().wave[2], 1) == 0;
}

bool fields_belong(const Subject& s) {
  Algorithm rest = s.algorithm();
  if (rest.stages < 2 || rest.block_per_cu < 1) return false;
  rest.tile = rest.wave = {};
  rest.vector = {};
  rest.stages = 0;
  rest.block_per_cu = -1;
  if (rest.split_k) rest.split_k_atomic = false;
  rest.split_k = rest.split_k && warpgroups_across(s.algorithm()) > 1;
  if (s.algorithm().pipeline == Pipeline::skinny_tma) rest.prefetch_weights = false;
  if (is_warp_specialized(s)) {
    const Algorithm& a = s.algorithm();
    // Of parts that clusters share each block joins as many columns, of a transposed tile as many eights of rows.
    const int sums = a.transpose_c ? s.tile_m() / 8 : s.tile_n() / 8;
    const bool joins = a.split_k && !a.split_k_atomic && sums % std::max<int>(a.cluster_k, 1) == 0;
    const bool one = rest.cluster == decltype(rest.cluster){1, 1} && warpgroups_across(a) == 1;
    const bool alone = one && !a.split_k;
    if ((alone || (one && joins)) && !rest.stream_k && !rest.ping_pong) rest.cluster_k = 1;
    // With multicast beside it stream-K spills: its walk stays in the producer's few registers.
    if (alone && rest.cluster_k == 1) rest.stream_k = false;
    rest.cluster = {1, 1};
    rest.ping_pong = false;
    rest.transpose_c = false;
  }
  rest.pipeline = Algorithm{}.pipeline;
  rest.instruction = Algorithm{}.instruction;
  // Element by element: of arrays == is a call each, which took a tenth of ranking a signature's first problem.
  bool others = false;
  visit_beside_defaults(rest, [&](std::string_view, const auto& value, const auto& standard) {
    if constexpr (ArrayField<decltype(value)>) {
      for (std::size_t i = 0; i < value.size(); ++i) others |= value[i] != standard[i];
    } else {
      others |= value != standard;
    }
  });
  return !others;
}

bool accesses_are_carried(const Subject& s) {
  const auto& [a, b, d] = s.algorithm().vector;
  const int wide = 16 / element_bytes(s);
  const bool is_transposed = is_mixed(s) || s.algorithm().transpose_c;  // boxes have the rows that are turned together
  const bool box = d * result_bytes(s) == 16 && (is_warp_specialized(s) || is_mixed(s)) &&
                   (!is_transposed || turned_shares_are_boxes(s.tile_m(), s.algorithm().cluster_k));
  if (a != b || (d != 1 && d != 2 && !box)) return false;
  // Tensors that are read by elements have an address each, for which the sums of a transposed tile leave no registers.
  if (s.algorithm().transpose_c && d == 1 && std::ranges::any_of(s.signature().epilogue_ops, reads_tensor))
    return false;
  // 176 sums a thread leave no registers for D by pairs, nor in clusters by elements, but for a transposed tile: 256 x
  // 176 spilled 4 bytes so, 176 x 256 by pairs 24 and in clusters 32 (ptxas 13.0, bf16 and fp8).
  constexpr int kMostSumsByPairs = 168;
  const bool clusters = s.algorithm().cluster[0] * s.algorithm().cluster[1] > 1;
  if (is_warp_specialized(s) && !box && s.facts().accumulators > kMostSumsByPairs &&
      (d == 2 || (clusters && !s.algorithm().transpose_c)))
    return false;
  if (a == wide) return true;
  return a == 1 && d == 1 && s.algorithm().pipeline == Pipeline::mma_sm80;
}

bool layout_is_carried(const Subject& s) {
  const GemmSignature& g = s.signature();
  if (s.algorithm().pipeline == Pipeline::mma_sm80 || is_along_k(g)) return true;
  if (!is_warp_specialized(s)) return false;
  if (warpgroups_across(s.algorithm()) > 1 && g.layout_a != MatrixOrder::row) return false;
  if (element_bytes(s) == 2) return true;
  const int square = 128 / element_bytes(s);
  return (g.layout_a == MatrixOrder::row || s.tile_m() % square == 0) &&
         (g.layout_b == MatrixOrder::column || s.tile_n() % square == 0) && !s.algorithm().stream_k;
}

bool cluster_is_whole(const Subject& s) {
  const auto [m, n] = s.algorithm().cluster;
  const int k = s.algorithm().cluster_k;
  if (m < 1 || n < 1 || m * n > 8) return false;
  // Each block finishes a share of wgmma's columns: whole slabs of 16, or, transposed, whole eights.
  if (k < 1 || k > 8) return false;
  if (s.algorithm().transpose_c ? s.tile_m() < 8 * k : s.tile_n() % (16 * k) != 0) return false;
  const GemmSignature& g = s.signature();
  const int square = 128 / element_bytes(s);
  const int step_m = g.layout_a == MatrixOrder::column && n > 1 ? square : 1;
  const int step_n = g.layout_b == MatrixOrder::row && m > 1 ? square : 1;
  return s.tile_m() % n == 0 && s.tile_m() / n % step_m == 0 && s.tile_n() % m == 0 && s.tile_n() / m % step_n == 0;
}

long shared_bytes_limit(const Subject& s, const CudaGemmResources& facts) {
  const long share = s.spec.shared_bytes_per_sm / facts.blocks_per_sm - s.spec.shared_bytes_reserved;
  const long limit = std::min(s.spec.shared_bytes_per_block, share);
  return s.algorithm().pipeline == Pipeline::mma_sm80 ? std::min<long>(limit, TS_MMA_SM80_SHARED_BYTES) : limit;
}

/// What the epilogue of a slab loads, and of the next one ahead; applied to sums as they lie it loads less.
int epilogue_registers(const GemmSignature& g, const CudaGemmResources& facts) {
  const int columns = facts.epilogue_columns;
  int words = 0;
  for (const EpilogueOp op : g.epilogue_ops) {
    const bool bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
    const int bits = reads_tensor(op) ? bits_of(g.aux) : bias ? bits_of(g.bias) : 32;
    if (reads_tensor(op)) words += columns / 4 * (bits > 16 ? 2 : 1);
    if (op == EpilogueOp::bias || op == EpilogueOp::scale_n) words += columns / 8 * (bits > 16 ? 2 : 1);
    if (op == EpilogueOp::bias_m || op == EpilogueOp::scale_m) words += 2;
  }
  return 2 * words;
}

constexpr int kManySums = 136;
constexpr int kManySumsOfThree = 88;  // warpgroups, whose threads are launched with 128 registers

/// ptxas compiles for the registers that a block is launched with, although a warpgroup that multiplies has more later.
/// A wgmma takes 26 beside its sums (C7602 of ptxas 13.0 says so of 208 columns and three warpgroups). The end of a
/// transposed tile has all sums beside what the epilogue loaded ahead, and spills where fewer than these are left.
bool fits_launch(const Subject& s, const CudaGemmResources& facts) {
  const Algorithm& a = s.algorithm();
  if (!is_warp_specialized(s)) return true;
  if (!a.transpose_c) return s.tile_n() / 2 + 26 <= facts.launch_registers;
  const bool walks_far = a.stream_k && a.wave[0] == 3;
  if (facts.accumulators > kManySums) return !walks_far;  // without an epilogue: fits_many_sums
  return !walks_far && facts.accumulators + 28 + epilogue_registers(s.signature(), facts) <= facts.launch_registers;
}

/// Beside more than 136 sums an epilogue, results of 32 bits or rows that lie otherwise spill: of 26 kernels by 256 x
/// 160, 256 x 176 and their transposed forms 10 did (4 to 212 bytes, ptxas 13.0). Parts of 256 x 176 in a cluster spill
/// 28 bytes in all types; alone, transposed or of 160 columns they do not. Parts of 128 x 176 that take turns spill 36
/// in all types; of 144, 160 and 192 columns and transposed they do not. Of transposed tiles of three warpgroups three
/// of 167 kernels of 184 and 200 rows, with epilogues among them, did not build; of 60 that this leaves all did.
bool fits_many_sums(const Subject& s, const CudaGemmResources& facts) {
  const GemmSignature& g = s.signature();
  const Algorithm& a = s.algorithm();
  const int many = a.transpose_c && a.wave[0] == 3 ? kManySumsOfThree : kManySums;
  const bool parts = is_warp_specialized(s) && !a.transpose_c && a.split_k;
  if (parts && a.cluster[0] * a.cluster[1] > 1 && facts.accumulators > 160) return false;
  if (parts && a.ping_pong && s.tile_n() == 176) return false;
  return !is_warp_specialized(s) || facts.accumulators <= many ||
         (g.epilogue_ops.empty() && facts.result_bytes == 2 && is_along_k(g) && !g.mm_plus_mm &&
          g.grouping == GemmGrouping::none && !has_block_scales(g));
}

/// Three warpgroups leave each thread 128 registers: parts of 192 x 192 that are joined spilled 4 to 204 bytes with
/// every epilogue but a bias (ptxas 13.0); parts of 176 columns and of transposed tiles did not. Beside a tensor of
/// int32 those of 64 x 128 in clusters spilled too, and of 128 x 128 all; of 160 to 256 columns and 256 x 128 none. In
/// clusters of 2 x 2 four of 16 kernels of 128 x 128 spilled 16 to 36 bytes, all with an epilogue.
bool fits_joined_parts(const Subject& s) {
  const Algorithm& a = s.algorithm();
  const GemmSignature& g = s.signature();
  if (!is_warp_specialized(s) || !a.split_k) return true;
  if (a.wave[0] == 3 && !a.transpose_c && s.tile_n() >= 192) return false;
  const bool beside_integers = g.aux == DataType::int32 && std::ranges::any_of(g.epilogue_ops, reads_tensor);
  const bool clusters = a.cluster[0] * a.cluster[1] > 1;
  if (a.cluster[0] * a.cluster[1] > 2 && s.tile_m() * s.tile_n() == 128 * 128 && !g.epilogue_ops.empty()) return false;
  if (!beside_integers || s.tile_n() < 128) return true;
  return a.wave[0] == 1 ? !clusters : !(s.tile_m() == 128 && s.tile_n() == 128);
}

/// Streams by mma.sync convert 8-bit floats on their way: with half a fragment's rows of zeros (24 x 72, 24 x 80) e4m3
/// spilled 4 to 20 bytes by four and eight warps, 24 x 64, 32 x 72 and 32 x 80 none (ptxas 13.0).
bool fits_half_fragments(const Subject& s) {
  if (s.algorithm().pipeline != Pipeline::skinny_tma || is_wgmma_stream(s) || !is_fp8(s.signature().a)) return true;
  return s.tile_m() <= 16 || s.tile_m() % 16 == 0 || s.tile_n() <= 64;
}

/// Registers beside the sums: operands, addresses, counters, and what the epilogue has loaded ahead.
int other_registers(const Subject& s) {
  if (is_warp_specialized(s)) return 40;
  if (is_mixed(s)) return 104;  // two boxes of unpacked weights, one of packed ones, scales
  if (s.algorithm().pipeline == Pipeline::skinny && has_weights(s.signature())) {
    // A's part beside 16 bytes of weights, for two rows, of this step and the next; scales and zero points.
    const int chunks = 16 / std::max(bits_of(s.signature().b), 1);  // of 16 bytes of A
    return 40 + 2 * (2 * 4 * chunks) + s.tile_n() / 8 * (s.signature().zero_points ? 2 : 1);
  }
  // 8-bit floats are converted on their way; beside 128 sums 100 to 324 bytes of that went to memory in every layout
  // but crr without groups and parts (ptxas 13.0, sm_90a). With block scales half of the sums are fresh at every step.
  if (s.algorithm().pipeline == Pipeline::mma_sm80 && is_fp8(s.signature().a) && !has_block_scales(s.signature()))
    return 128;
  // Integers of 8 bits on their way to 16 beside scales of float32: 64 x 64 in four blocks spilled a word (ptxas 13.0).
  if (s.algorithm().pipeline == Pipeline::mma_sm80 && has_weights(s.signature()) && bits_of(s.signature().b) == 8)
    return 100;
  // Joined parts take registers beside both: 64 x 64 in four blocks spilled 56 bytes in every result's type and with
  // every epilogue (ptxas 13.0), 128 x 128 of 8 warps 20 to 48, and without parts none.
  if (s.algorithm().pipeline == Pipeline::mma_sm80 && has_block_scales(s.signature()) && s.algorithm().split_k)
    return s.facts().accumulators > 64 ? 128 : 72;
  // The same beside 64 sums of 48 and more rows, where a warp holds the fragments of three or four rows of tiles.
  if (s.algorithm().pipeline == Pipeline::skinny_tma && !is_wgmma_stream(s) && is_fp8(s.signature().a) &&
      s.tile_m() > 32)
    return 112;
  return s.signature().a == DataType::fp32 ? 96 : 56;  // in three products each operand has two parts
}

/// Block scales are applied to sums beside the sums; few rows take their scales with the weights.
bool scales_are_carried(const Subject& s) {
  const GemmSignature& g = s.signature();
  if (!scales_fit(g)) return false;
  return !has_block_scales(g) || (!is_few_rows(s) && !s.algorithm().stream_k && !s.algorithm().transpose_c &&
                                  s.algorithm().cluster_k == 1 && (s.tile_n() == 0 || 128 % s.tile_n() == 0));
}

constexpr Rule<Subject> kRules[] = {
    // These look at signature and pipeline alone: an enumeration asks them once for all tiles.
    {"family_is_carried", "the CUDA templates compute dense products with a row-major result",
     [](const Subject& s) {
       GemmSignature single = s.signature();
       if (single.family == GemmFamily::grouped_gemm) single.family = GemmFamily::standard;  // a list: see below
       return is_plain_gemm(single);
     },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("family {}, layouts of C and D {}{}, stream_k_reduction {}", name_of(g.family),
                          name_of(g.layout_c), name_of(g.layout_d), name_of(g.stream_k_reduction));
     }},
    {"pipeline_is_offered", "the chip's table lists this pipeline with this instruction for matrices of these types",
     [](const Subject& s) {
       const CudaGemmPipeline* offered = s.spec.gemm.pipeline(s.algorithm().pipeline);
       if (offered == nullptr) return false;
       const Instruction instruction = s.algorithm().instruction;
       if (offered->instruction != instruction && std::ranges::find(offered->tiles, std::optional(instruction),
                                                                    &CudaGemmTile::instruction) == offered->tiles.end())
         return false;
       const GemmSignature& g = s.signature();
       const std::vector<DataType>& types = has_weights(g) ? offered->weights : offered->data_types;
       return std::ranges::find(types, has_weights(g) ? g.b : g.a) != types.end();
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       for (const CudaGemmPipeline& p : s.spec.gemm.pipelines)
         for (const DataType type : p.data_types)
           offered.push_back(
               fmt::format("{} with {} of {}", name_of(p.pipeline), name_of(p.instruction), name_of(type)));
       for (const CudaGemmPipeline& p : s.spec.gemm.pipelines)
         for (const DataType type : p.weights)
           offered.push_back(
               fmt::format("{} with {} of {} weights", name_of(p.pipeline), name_of(p.instruction), name_of(type)));
       const GemmSignature& g = s.signature();
       return fmt::format("{} with {} of {}{}; {} offers {}", name_of(s.algorithm().pipeline),
                          name_of(s.algorithm().instruction), name_of(has_weights(g) ? g.b : g.a),
                          has_weights(g) ? " weights" : "", s.spec.arch.text(), fmt::join(offered, ", "));
     }},
    {"types_are_carried",
     "A and B have one type, or are fp8 and bf8, or A is fp16 or bf16 and B holds integer weights; sums "
     "are fp32 (int32 for int8 matrices); results are floating-point; int8 matrices may also give int8, "
     "or int32 when only int32 tensors are added",
     types_fit,
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("a {}, b {}, sums {}, result {}, C and tensors {}, bias {}, {} operations", name_of(g.a),
                          name_of(g.b), name_of(g.accumulator), name_of(g.c), name_of(g.aux), name_of(g.bias),
                          g.epilogue_ops.size());
     }},
    {"one_type_by_elements",
     "the skinny pipeline takes A and B of one type; the other pipelines also multiply fp8 by bf8",
     [](const Subject& s) {
       return s.algorithm().pipeline != Pipeline::skinny || s.signature().a == s.signature().b ||
              has_weights(s.signature());
     },
     [](const Subject& s) { return fmt::format("a {}, b {}", name_of(s.signature().a), name_of(s.signature().b)); }},
    {"second_product_is_carried",
     "every pipeline but skinny carries a second product, but not together with groups, scales along k or "
     "integer weights",
     [](const Subject& s) {
       return second_fits(s.signature()) && (!s.signature().mm_plus_mm || s.algorithm().pipeline != Pipeline::skinny);
     },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("a second product in {}, beside {} groups, qscale {}, a {} and b {}",
                          name_of(s.algorithm().pipeline), name_of(g.grouping), name_of(g.qscale), name_of(g.a),
                          name_of(g.b));
     }},
    {"epilogue_is_carried", "an epilogue has at most one gate, and amax comes last",
     [](const Subject& s) { return uncarried(s.signature().epilogue_ops) == EpilogueOp::none; },
     [](const Subject& s) {
       std::vector<std::string_view> names;
       for (const EpilogueOp op : s.signature().epilogue_ops) names.push_back(name_of(op));
       return fmt::format("[{}], refused {}", fmt::join(names, ", "), name_of(uncarried(s.signature().epilogue_ops)));
     }},
    // These look at everything but the widths of access, and at no more of the stages than that there are two.
    {"scales_are_carried",
     "blocks of 8-bit floats have scales in fp32 and tiles whose columns divide 128, on pipelines of many rows; "
     "integer "
     "weights have scales in fp32 or A's type; both lie along k",
     scales_are_carried,
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("{}: a {}, b {}, qscale {}, scale {}, layout {}{}, tile_n {}",
                          name_of(s.algorithm().pipeline), name_of(g.a), name_of(g.b), name_of(g.qscale),
                          name_of(g.scale), name_of(g.layout_a), name_of(g.layout_b), s.tile_n());
     }},
    {"groups_are_carried",
     "only pipelines for many rows carry groups, and then they do not split k or share it (stream-K, clusters), nor "
     "transpose tiles; contiguous groups need a row-major A",
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       if (g.grouping == GemmGrouping::none) return true;
       return !is_few_rows(s) && !s.algorithm().split_k && !s.algorithm().stream_k && !s.algorithm().transpose_c &&
              s.algorithm().cluster_k == 1 &&
              (g.grouping != GemmGrouping::contiguous || g.layout_a == MatrixOrder::row);
     },
     [](const Subject& s) {
       return fmt::format("{} groups in {}, a {}, split_k {}, stream_k {}, cluster_k {}, transpose_c {}",
                          name_of(s.signature().grouping), name_of(s.algorithm().pipeline),
                          name_of(s.signature().layout_a), s.algorithm().split_k, s.algorithm().stream_k,
                          s.algorithm().cluster_k, s.algorithm().transpose_c);
     }},
    {"lists_are_carried",
     "only the portable pipeline computes lists of products, without groups, a second product, scales or "
     "a split of k",
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return g.family != GemmFamily::grouped_gemm ||
              (s.algorithm().pipeline == Pipeline::mma_sm80 && g.grouping == GemmGrouping::none && !g.mm_plus_mm &&
               !s.algorithm().split_k && !has_weights(g) && !has_block_scales(g));
     },
     [](const Subject& s) {
       return fmt::format("family {} in {}, {} groups, split_k {}, b {}", name_of(s.signature().family),
                          name_of(s.algorithm().pipeline), name_of(s.signature().grouping), s.algorithm().split_k,
                          name_of(s.signature().b));
     }},
    {"layout_is_carried",
     "kernels for few rows need A and B contiguous along k; wgmma reads 16-bit matrices in any order; "
     "8-bit and tf32 matrices in another order are transposed in squares of 128 bytes (128 elements of m "
     "or n in 8 bits, 32 in tf32), so tiles are whole squares and stream-K is excluded",
     layout_is_carried,
     [](const Subject& s) {
       return fmt::format("a {}, b {} of {} bytes, tile {} x {}, stream_k {}", name_of(s.signature().layout_a),
                          name_of(s.signature().layout_b), element_bytes(s), s.tile_m(), s.tile_n(),
                          s.algorithm().stream_k);
     }},
    {"tile_is_whole",
     "a warpgroup computes a multiple of 64 rows (of a transposed tile: columns), and a tile has up to 3 warpgroups "
     "and up to 256 rows and columns, of which the others are a multiple of 16, or, transposed, from 80 on and not of "
     "int8, of 8; a mixed kernel's warpgroup computes "
     "64 columns by 16, 32, 64, 128, 192 or 256 rows; a "
     "portable warp computes a multiple of 16 x 16; a kernel for few rows computes 8 or 16, the copy engine's up to 64",
     tile_is_whole,
     [](const Subject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("tile {} x {}, waves {} x {} x {}, ping_pong {}, transpose_c {}", s.tile_m(), s.tile_n(),
                          a.wave[0], a.wave[1], a.wave[2], a.ping_pong, a.transpose_c);
     }},
    {"stage_is_whole",
     "a stage is 128 bytes of k, portably 64; a stream's is up to 16 boxes of 128, which its warps share evenly; a "
     "mixed "
     "one's has 32, 64 or 128 bytes of weights and 64 of k or more",
     stage_is_whole,
     [](const Subject& s) {
       const auto [step, most] = stage_step(s);
       return fmt::format("tile_k {}, steps of {} up to {}, {} warps along k", s.tile_k(), step, most,
                          s.algorithm().wave[2]);
     }},
    {"fields_belong_to_pipeline",
     "all pipelines have two stages or more and a number of blocks an SM; the warp-specialised one may have clusters, "
     "ping-pong, transposed tiles and, without clusters and split k, stream-K or, without ping-pong too, clusters that "
     "share tiles by k; parts are added as they come where k is split",
     fields_belong,
     [](const Subject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format(
           "stages {}, block_per_cu {}, cluster {} x {}, cluster_k {}, ping_pong {}, split_k {}, split_k_atomic {}, "
           "stream_k {}, transpose_c {}",
           a.stages, a.block_per_cu, a.cluster[0], a.cluster[1], a.cluster_k, a.ping_pong, a.split_k, a.split_k_atomic,
           a.stream_k, a.transpose_c);
     }},
    {"cluster_has_equal_shares",
     "each block of a cluster loads an equal share of the tiles that the cluster shares, of what does not lie along k "
     "whole squares; one that shares a tile by k has 2 to 8 blocks, and each finishes whole slabs of 16 columns, or 8 "
     "rows or more of a transposed tile",
     [](const Subject& s) { return !is_warp_specialized(s) || cluster_is_whole(s); },
     [](const Subject& s) {
       return fmt::format("tile {} x {} over a cluster of {} x {}, by k {}", s.tile_m(), s.tile_n(),
                          s.algorithm().cluster[0], s.algorithm().cluster[1], s.algorithm().cluster_k);
     }},
    {"threads_fit", "the blocks that share an SM have no more threads together than the SM holds",
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return facts.threads <= s.spec.threads_per_block && facts.threads * facts.blocks_per_sm <= s.spec.threads_per_sm;
     },
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return fmt::format("{} blocks of {} threads, {} a block and {} an SM", facts.blocks_per_sm, facts.threads,
                          s.spec.threads_per_block, s.spec.threads_per_sm);
     }},
    {"registers_hold_sums",
     "the sums and the other values that a thread keeps fit its registers, of a transposed tile those at launch; more "
     "than 136 sums (transposed, of three warpgroups, 88) go with 16-bit results without an epilogue, of operands "
     "along k; stream-K of transposed tiles "
     "takes one or two warpgroups; parts of 192 x 192 are not joined, of 128 x 176 not in turns, and beside int32 not "
     "those of 128 x 128, nor by single warpgroups in clusters those of 128 columns and more; streams of 8-bit floats "
     "have whole fragments of rows beyond 64 columns",
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return facts.accumulators + other_registers(s) <= facts.consumer_registers && fits_launch(s, facts) &&
              fits_many_sums(s, facts) && fits_joined_parts(s) && fits_half_fragments(s);
     },
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return fmt::format("{} registers of sums and {} of other values, of {}, {} at launch", facts.accumulators,
                          other_registers(s), facts.consumer_registers, facts.launch_registers);
     }},
    // The rest. More stages only take more shared memory.
    {"accesses_are_carried",
     "kernels read A and B 16 bytes at a time, and portable kernels also element by element; kernels "
     "write D by elements (transposed tiles without tensors of the epilogue alone) or pairs (tiles of at most 168 sums "
     "a thread; more, in clusters, not by elements either, but transposed ones); the warp-specialised "
     "pipeline can also write 16 bytes at a time, its transposed tiles and the mixed pipeline's beyond 32 rows, in a "
     "cluster that shares them equal shares of so many",
     accesses_are_carried,
     [](const Subject& s) {
       const auto& [a, b, d] = s.algorithm().vector;
       return fmt::format("{}, {} and {} elements at a time, of {} and {} bytes", a, b, d, element_bytes(s),
                          result_bytes(s));
     }},
    {"gated_slab_is_copied", "when the copy engine stores a gated result, a row of the slab has 32 bytes or more",
     [](const Subject& s) {
       if (!s.signature().epilogue_ops.gated()) return true;
       const CudaGemmResources& facts = s.facts();
       return !facts.store_box || facts.slab_row_bytes >= 32;
     },
     [](const Subject& s) { return fmt::format("rows of {} bytes", s.facts().slab_row_bytes); }},
    {"shared_memory_fits", "the stages and the result's tile fit the block's share of the SM's shared memory",
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return facts.shared_bytes <= shared_bytes_limit(s, facts);
     },
     [](const Subject& s) {
       const CudaGemmResources& facts = s.facts();
       return fmt::format("{} bytes, {} for each of {} blocks", facts.shared_bytes, shared_bytes_limit(s, facts),
                          facts.blocks_per_sm);
     }},
};
constexpr std::size_t kSignatureRules = 6, kTileRules = 10;

}  // namespace

CudaGemmRules cuda_gemm_rules() {
  return kRules;
}
CudaGemmRules cuda_gemm_signature_rules() {
  return std::span(kRules).first<kSignatureRules>();
}
CudaGemmRules cuda_gemm_tile_rules() {
  return std::span(kRules).subspan<kSignatureRules, kTileRules>();
}
CudaGemmRules cuda_gemm_access_rules() {
  return std::span(kRules).subspan<kSignatureRules + kTileRules>();
}
CudaGemmRules cuda_gemm_stage_rules() {
  return std::span(kRules).last<1>();
}

}  // namespace tilesmith
