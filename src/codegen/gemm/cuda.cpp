#include "codegen/gemm/cuda.hpp"

#include <algorithm>

#include "codegen/flatten.hpp"
#include "codegen/gemm/gpu_words.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "instances/gemm/family.hpp"
#include "kernels/cuda/gemm/abi.h"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

namespace {

int scaling_number(const GemmSignature& s) {
  if (has_weights(s)) return TS_GEMM_SCALE_WEIGHTS;
  return has_block_scales(s) ? TS_GEMM_SCALE_BLOCK : TS_GEMM_SCALE_TENSOR;
}

int grouping_number(GemmGrouping grouping) {
  switch (grouping) {
    case GemmGrouping::contiguous:
      return TS_GEMM_CONTIGUOUS;
    case GemmGrouping::masked:
      return TS_GEMM_MASKED;
    case GemmGrouping::none:
      break;
  }
  return TS_GEMM_UNGROUPED;
}

Status add_signature(ConstantsTable& table, const GemmSignature& s) {
  TS_ASSIGN(const int a, gemm_type_number(s.a));
  TS_ASSIGN(const int b, gemm_type_number(s.b));
  TS_ASSIGN(const int d, gemm_type_number(s.c));
  table.add("kTypeA", a);
  table.add("kTypeB", b);
  table.add("kTypeD", d);
  table.add("kRowMajorA", s.layout_a == MatrixOrder::row);
  table.add("kRowMajorB", s.layout_b == MatrixOrder::row);
  TS_ASSIGN(const int scale, gemm_type_number(has_weights(s) ? s.scale : DataType::fp32));
  table.add("kScaling", scaling_number(s));
  table.add("kTypeScale", scale);
  table.add("kZeroPoints", s.zero_points);
  table.add("kGrouping", grouping_number(s.grouping));
  table.add("kMmPlusMm", s.mm_plus_mm);
  return add_gemm_epilogue(table, s.epilogue_ops, s.aux, s.bias);
}

/// The template's file, once its part of the table is written.
std::string_view add_algorithm(ConstantsTable& table, const KernelConfig& config, const CudaGemmResources& facts,
                               int producer_registers) {
  const Algorithm& a = config.algorithm;
  table.add("kStages", a.stages);
  table.add("kBlocksPerSm", facts.blocks_per_sm);
  table.add("kPairs", facts.pairs);
  table.add("kStagedTensors", facts.staged_tensors);
  table.add("kSplitK", a.split_k);
  table.add("kSplitKAtomic", a.split_k_atomic);
  table.add("kClusterK", a.cluster_k);
  switch (a.pipeline) {
    case Pipeline::warp_specialized:
    case Pipeline::weight_only:
      table.add("kTileM", a.tile[0]);
      table.add("kTileN", a.tile[1]);
      table.add("kCopyRows", facts.copy_rows);
      table.add("kWarpgroups", a.wave[0]);
      table.add("kProducerRegisters", producer_registers);
      table.add("kPingPong", a.ping_pong);
      table.add("kClusterM", a.cluster[0]);
      table.add("kClusterN", a.cluster[1]);
      table.add("kStoreTmaBox", facts.store_box);
      table.add("kStreamK", a.stream_k);
      table.add("kTransposed", a.transpose_c);
      table.add("kPromote", false);
      table.add("kTmaBoxes", a.pipeline == Pipeline::weight_only ? facts.tma_boxes : 1);
      return a.pipeline == Pipeline::weight_only ? "cuda/gemm/hopper/weights_gemm.cuh" : "cuda/gemm/hopper/gemm.cuh";
    case Pipeline::skinny_tma:
      table.add("kRows", a.tile[0]);
      table.add("kColumns", a.tile[1]);
      table.add("kTmaBoxes", facts.tma_boxes);
      table.add("kWarps", a.wave[2]);
      table.add("kTransposed", a.instruction == Instruction::wgmma);
      table.add("kPrefetchWeights", a.prefetch_weights);
      return "cuda/gemm/hopper/skinny.cuh";
    case Pipeline::skinny:
      table.add("kRows", a.tile[0]);
      table.add("kColumns", a.tile[1]);
      table.add("kWarps", a.wave[2]);
      return "cuda/gemm/skinny/gemm.cuh";
    default:
      table.add("kTileM", a.tile[0]);
      table.add("kTileN", a.tile[1]);
      table.add("kWarpsM", a.wave[0]);
      table.add("kWarpsN", a.wave[1]);
      table.add("kAligned", facts.aligned);
      table.add("kTf32x3", std::get<GemmSignature>(config.signature).a == DataType::fp32);
      if (facts.list_products == 0) return "cuda/gemm/mma_sm80/gemm.cuh";
      table.add("kGemms", facts.list_products);
      return "cuda/gemm/mma_sm80/list.cuh";
  }
}

/// Bytes that a kernel may spill, where the spills are known to be outside of its main loop.
int spills_meant(const KernelConfig& config) {
  const auto& signature = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  int bytes = 0;
  // Which part of k comes next is worked out once a tile, beside all the rest; where A2 x B2 begins is a word more.
  if (a.split_k || a.stream_k || signature.mm_plus_mm) bytes = 16;
  // A walk over groups takes a few registers more than full tiles leave. Scales and zero points of weights are loaded
  // ahead, beside the 128 sums of a tile; those that split k are smaller.
  if (signature.grouping != GemmGrouping::none || (a.pipeline == Pipeline::weight_only && !a.split_k)) bytes = 64;
  // Results that are stored one by one have an address and a test each: 52 to 92 bytes go to memory before the loop and
  // behind it, none inside (SASS of ptxas 13.0, tile 128x128).
  if (a.pipeline == Pipeline::mma_sm80 && a.vector[2] == 1) bytes = std::max(bytes, 128);
  // The arguments of a list's entry take more registers, which a gate together with amax on a full tile of fp8 does not
  // leave: they are spilled and reloaded once a tile.
  if (signature.family == GemmFamily::grouped_gemm) bytes = 256;
  return bytes;
}

}  // namespace

Result<std::string_view> add_cuda_gemm_constants(ConstantsTable& table, const KernelConfig& config,
                                                 int least_producer_registers) {
  TS_TRY(add_signature(table, std::get<GemmSignature>(config.signature)));
  const CudaGemmResources facts = cuda_gemm_resources(config);
  return add_algorithm(table, config, facts, std::max(facts.producer_registers, least_producer_registers));
}

Result<Source> cuda_gemm_source(const KernelConfig& config) {
  ConstantsTable table;
  TS_ASSIGN(const std::string_view file, add_cuda_gemm_constants(table, config));
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), file));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::cuda;
  source.arch = std::string(config.arch.text());
  source.spill_limit_bytes = spills_meant(config);
  source.options = {"-std=c++17", "-default-device"};
  source.text = table.text() + fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace tilesmith
