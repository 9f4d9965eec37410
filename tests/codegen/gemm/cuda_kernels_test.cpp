// Generated CUDA GEMM sources: self-contained, healthy when compiled, and of the sizes that the host computes. The
// compiling tests need NVRTC and no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "choose/gemm/cuda.hpp"
#include "codegen/generate.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "instances/gemm/cuda.hpp"
#include "thorough.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == name) return spec;
  throw std::runtime_error("no such architecture");
}

GemmSignature signature_of(DataType type, DataType result, GemmEpilogue epilogue = {}) {
  GemmSignature s;
  s.a = s.b = type;
  s.c = s.aux = result;
  s.bias = DataType::fp32;
  s.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.epilogue_ops = epilogue;
  return s;
}

KernelConfig best(std::string_view on, Pipeline pipeline, const GemmSignature& signature, CudaGemmShape shape) {
  for (const Candidate& one : ranked_cuda_gemm(arch(on), signature, shape))
    if (one.recipe.main().algorithm.pipeline == pipeline) return one.recipe.main();
  throw std::runtime_error("no such instance");
}

Source source_of(const KernelConfig& config) {
  const auto source = generate(config, arch(config.arch.text()));
  if (!source) throw std::runtime_error(source.error().text());
  return *source;
}

constexpr CudaGemmShape kLarge{4096, 4096, 4096}, kFew{16, 4096, 4096};
const GemmSignature kBf16 = signature_of(DataType::bf16, DataType::bf16);

/// One of each template.
std::vector<KernelConfig> one_of_each(const GemmSignature& signature) {
  return {best("sm_90a", Pipeline::warp_specialized, signature, kLarge),
          best("sm_90a", Pipeline::skinny_tma, signature, kFew), best("sm_80", Pipeline::mma_sm80, signature, kLarge),
          best("sm_80", Pipeline::skinny, signature, kFew)};
}

TEST(CudaGemmSource, IsOneTextWithoutIncludes) {
  for (const KernelConfig& config : one_of_each(kBf16)) {
    const Source source = source_of(config);
    EXPECT_EQ(source.name, native_name(config));
    EXPECT_EQ(source.entry_symbol, source.name);
    EXPECT_EQ(source.arch, config.arch.text());
    EXPECT_EQ(source.language, Language::cuda);
    EXPECT_EQ(source.text.find("#include"), std::string::npos);
    EXPECT_NE(source.text.find("#define TS_ENTRY " + source.name), std::string::npos);
    EXPECT_NE(source.text.find("constexpr int kEpilogue[] = {0};"), std::string::npos);
  }
}

TEST(CudaGemmSource, TheEpilogueIsInTheTable) {
  GemmSignature signature = signature_of(DataType::bf16, DataType::bf16,
                                         {EpilogueOp::scale_m, EpilogueOp::bias, EpilogueOp::add, EpilogueOp::silu});
  signature.aux = DataType::fp16;
  const Source source = source_of(best("sm_90a", Pipeline::warp_specialized, signature, kLarge));
  // The numbers of kernels/cuda/gemm/abi.h.
  EXPECT_NE(source.text.find("constexpr int kEpilogue[] = {6, 3, 1, 10};"), std::string::npos);
  EXPECT_NE(source.text.find("constexpr int kEpilogueTypes[] = {0, 0, 2, 0};"), std::string::npos);
  EXPECT_NE(source.text.find("constexpr bool kStagedTensors = true;"), std::string::npos);
}

TEST(CudaGemmSource, WhatARuleRefusesIsNotGenerated) {
  KernelConfig config = best("sm_90a", Pipeline::warp_specialized, kBf16, kLarge);
  config.algorithm.stages = 9;
  const auto refused = generate(config, arch("sm_90a"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("rule shared_memory_fits"), std::string::npos) << refused.error().text();
}

class CudaGemmKernels : public testing::NvrtcFixture {};

/// Integer weights of 16-bit floats.
GemmSignature with_weights(DataType type, DataType weights, DataType scale) {
  GemmSignature s = signature_of(type, type);
  s.b = weights;
  s.scale = scale;
  s.zero_points = scale == type;
  return s;
}

GemmSignature with_block_scales(GemmGrouping grouping) {
  GemmSignature s = signature_of(DataType::fp8, DataType::bf16);
  s.qscale = QuantScale::blockscale;
  s.grouping = grouping;
  return s;
}

std::vector<KernelConfig> configs_of(std::string_view on, const GemmSignature& signature) {
  std::vector<KernelConfig> configs;
  enumerate_cuda_gemm(arch(on), signature, [&](const KernelConfig& config) {
    if (config.algorithm.vector[2] > 1) configs.push_back(config);
    return true;
  });
  return configs;
}

/// Groups, scales of blocks, weights.
std::vector<KernelConfig> of_experts() {
  GemmSignature groups = kBf16;
  groups.grouping = GemmGrouping::contiguous;
  std::vector<KernelConfig> configs = {
      best("sm_90a", Pipeline::warp_specialized, groups, {4096, 4096, 4096, 8}),
      best("sm_80", Pipeline::mma_sm80, groups, {4096, 4096, 4096, 8}),
      best("sm_90a", Pipeline::warp_specialized, with_block_scales(GemmGrouping::none), kLarge),
      best("sm_90a", Pipeline::warp_specialized, with_block_scales(GemmGrouping::masked), {64, 4096, 4096, 8}),
      best("sm_89", Pipeline::mma_sm80, with_block_scales(GemmGrouping::none), kLarge)};
  configs.push_back(
      best("sm_90a", Pipeline::weight_only, with_weights(DataType::fp16, DataType::int4, DataType::fp16), kLarge));
  for (const DataType weights : {DataType::int8, DataType::int4}) {
    const GemmSignature same = with_weights(DataType::bf16, weights, DataType::bf16);
    const GemmSignature wide = with_weights(DataType::fp16, weights, DataType::fp32);
    configs.push_back(best("sm_90a", Pipeline::skinny, same, kFew));
    configs.push_back(best("sm_80", Pipeline::skinny, wide, {1, 4096, 4096}));
    configs.push_back(best("sm_80", Pipeline::mma_sm80, wide, kLarge));
    configs.push_back(best("sm_90a", Pipeline::mma_sm80, same, kLarge));
    configs.push_back(best("sm_90a", Pipeline::weight_only, same, kLarge));
    configs.push_back(best("sm_90a", Pipeline::weight_only, wide, {48, 4096, 4096}));
  }
  // Weights keep most in registers beside the widest tiles.
  for (const KernelConfig& config : configs_of("sm_90a", with_weights(DataType::bf16, DataType::int4, DataType::bf16)))
    if ((config.algorithm.pipeline == Pipeline::skinny && config.algorithm.tile[1] >= 96) ||
        config.algorithm.pipeline == Pipeline::weight_only)
      configs.push_back(config);
  return configs;
}

/// Every tile of lists of products, of some signatures.
std::vector<KernelConfig> of_lists() {
  std::vector<KernelConfig> configs;
  GemmSignature turned = signature_of(DataType::fp16, DataType::fp32, {EpilogueOp::bias, EpilogueOp::add});
  turned.layout_a = MatrixOrder::column;
  for (GemmSignature signature :
       {turned, signature_of(DataType::fp32, DataType::fp32),
        signature_of(DataType::fp8, DataType::bf16, {EpilogueOp::swiglu, EpilogueOp::amax})}) {
    signature.family = GemmFamily::grouped_gemm;
    enumerate_cuda_gemm(arch("sm_90a"), signature, [&](const KernelConfig& config) {
      configs.push_back(config);
      return true;
    });
  }
  return configs;
}

TEST_F(CudaGemmKernels, OfListsAreHealthy) {
  std::vector<Source> sources;
  for (const KernelConfig& config : testing::some(of_lists(), 4)) {
    EXPECT_EQ(config.algorithm.pipeline, Pipeline::mma_sm80);
    sources.push_back(source_of(config));
  }
  EXPECT_GT(sources.size(), 10u);
  compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
    const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
    ASSERT_NE(kernel, nullptr) << sources[at].name;
    EXPECT_LE(kernel->spill_store_bytes, sources[at].spill_limit_bytes) << sources[at].name;
    EXPECT_EQ(kernel->stack_bytes, kernel->spill_store_bytes == 0 ? 0 : kernel->stack_bytes) << sources[at].name;
  });
}

TEST_F(CudaGemmKernels, TheFirstChoiceIsBuiltWhereNothingIsAligned) {
  using Op = EpilogueOp;
  std::vector<GemmSignature> signatures = {
      kBf16, signature_of(DataType::fp32, DataType::fp32), signature_of(DataType::int8, DataType::int32),
      signature_of(DataType::fp8, DataType::bf16),
      signature_of(DataType::fp16, DataType::fp16, {Op::scale_m, Op::scale_n, Op::bias, Op::gelu, Op::add})};
  using enum MatrixOrder;
  for (const auto& [a, b] : {std::pair(column, row), std::pair(row, row), std::pair(column, column)}) {
    signatures.push_back(kBf16);
    signatures.back().layout_a = a;
    signatures.back().layout_b = b;
  }
  std::vector<Source> sources;
  for (const GemmSignature& signature : signatures)
    for (const CudaGemmShape& shape : {CudaGemmShape{.m = 1001, .n = 3001, .k = 777, .unaligned = true},
                                       CudaGemmShape{.m = 127, .n = 577, .k = 67, .unaligned = true}})
      sources.push_back(source_of(ranked_cuda_gemm(arch("sm_90a"), signature, shape).at(0).recipe.main()));
  compile_all(testing::some(sources, 3), [](std::size_t, const ResourceReport&) {});  // within their limits of spills
}

/// Every layout that is transposed, of each size of element; the tiles and the walks that take most registers.
std::vector<KernelConfig> of_layouts() {
  std::vector<KernelConfig> configs;
  for (const DataType type : {DataType::fp8, DataType::int8, DataType::tf32})
    for (const auto& [a, b] :
         {std::pair{MatrixOrder::row, MatrixOrder::row}, std::pair{MatrixOrder::column, MatrixOrder::row},
          std::pair{MatrixOrder::column, MatrixOrder::column}}) {
      GemmSignature s = signature_of(type, DataType::fp32);
      s.layout_a = a;
      s.layout_b = b;
      for (const KernelConfig& config : configs_of("sm_90a", s)) {
        const Algorithm& algorithm = config.algorithm;
        if (algorithm.pipeline != Pipeline::warp_specialized || algorithm.vector[2] == 2) continue;
        const bool splits = type == DataType::fp8 && algorithm.split_k;  // int8 does it like fp8
        if (type == DataType::tf32 || splits || algorithm.tile[1] == 256) configs.push_back(config);
      }
      if (a != MatrixOrder::row) continue;
      if (type == DataType::fp8) {  // a tensor behind the steps of its tile
        GemmSignature residual = s;
        residual.c = residual.aux = DataType::bf16;
        residual.epilogue_ops = {EpilogueOp::add};
        configs.push_back(best("sm_90a", Pipeline::warp_specialized, residual, kLarge));
      }
      s.grouping = GemmGrouping::contiguous;
      configs.push_back(best("sm_90a", Pipeline::warp_specialized, s, {4096, 4096, 4096, 8}));
    }
  return configs;
}

std::vector<KernelConfig> of_atomic_sums() {
  std::vector<KernelConfig> configs;
  for (const KernelConfig& config : configs_of("sm_90a", kBf16))
    if (config.algorithm.split_k_atomic) configs.push_back(config);
  return configs;
}

/// A tensor that comes through the ring, beside every tile that is not split.
std::vector<KernelConfig> of_copied_tensors() {
  std::vector<KernelConfig> configs;
  for (const KernelConfig& config :
       configs_of("sm_90a", signature_of(DataType::bf16, DataType::bf16, {EpilogueOp::add, EpilogueOp::gelu})))
    if (cuda_gemm_resources(config).copied_tensor && !config.algorithm.split_k && !config.algorithm.stream_k)
      configs.push_back(config);
  return configs;
}

/// Parts of three warpgroups' tiles, which have the fewest registers for adding them up, as far as the rules have them;
/// clusters.
std::vector<KernelConfig> of_tight_tiles() {
  GemmSignature integers = signature_of(DataType::int8, DataType::int32, {EpilogueOp::add});
  integers.aux = DataType::int32;
  std::vector<KernelConfig> configs;
  for (KernelConfig config : configs_of("sm_90a", integers)) {
    Algorithm& a = config.algorithm;
    if (a.pipeline != Pipeline::warp_specialized || a.vector[2] == 2) continue;
    if (a.wave[0] == 3) a.split_k = a.tile[1] < 192;
    if (a.wave[0] == 3 || a.cluster[0] > 1) configs.push_back(config);
  }
  // What the rules have beside those that spill: joined parts of 176 columns, streams of 24 rows by 64 columns.
  KernelConfig joined = best("sm_90a", Pipeline::warp_specialized,
                             signature_of(DataType::bf16, DataType::bf16, {EpilogueOp::add}), kLarge);
  joined.algorithm.tile = {192, 176, 64}, joined.algorithm.wave = {3}, joined.algorithm.stages = 3;
  joined.algorithm.split_k = true, joined.algorithm.ping_pong = joined.algorithm.transpose_c = false;
  joined.algorithm.cluster = {1, 1};
  configs.push_back(joined);
  for (const KernelConfig& config : configs_of("sm_90a", signature_of(DataType::fp8, DataType::bf16)))
    if (config.algorithm.pipeline == Pipeline::skinny_tma && config.algorithm.tile[0] == 24) configs.push_back(config);
  return configs;
}

TEST_F(CudaGemmKernels, AreHealthy) {
  std::vector<KernelConfig> configs = one_of_each(kBf16);
  configs.push_back(configs[1]);  // the stream
  configs.back().algorithm.prefetch_weights = true;
  for (const KernelConfig& config : testing::some(of_experts(), 9)) configs.push_back(config);
  for (const KernelConfig& config : testing::some(of_layouts(), 13)) configs.push_back(config);
  for (const KernelConfig& config : testing::some(of_atomic_sums(), 9)) configs.push_back(config);
  configs.push_back(best("sm_90a", Pipeline::warp_specialized, signature_of(DataType::fp8, DataType::bf16), kLarge));
  configs.push_back(best("sm_90a", Pipeline::warp_specialized, kBf16, {128, 4096, 14336}));  // a cluster, split k
  configs.push_back(best("sm_90a", Pipeline::warp_specialized, kBf16, {402, 36864, 7168}));  // two warpgroups by rows
  EXPECT_EQ(warpgroups_across(configs.back().algorithm), 2);
  configs.push_back(best(
      "sm_90a", Pipeline::warp_specialized,
      signature_of(DataType::bf16, DataType::bf16, {EpilogueOp::add, EpilogueOp::bias, EpilogueOp::gelu}), kLarge));
  configs.push_back(best("sm_80", Pipeline::mma_sm80, signature_of(DataType::fp32, DataType::fp32), kLarge));
  using Op = EpilogueOp;
  const GemmSignature behind_a_gate = signature_of(
      DataType::bf16, DataType::bf16, {Op::reglu, Op::scale_n, Op::bias, Op::multiply, Op::clamp, Op::amax});
  GemmSignature integers = signature_of(DataType::int8, DataType::int32, {Op::add});
  integers.aux = DataType::int32;
  for (const GemmSignature& signature : {behind_a_gate, integers}) {
    configs.push_back(best("sm_90a", Pipeline::warp_specialized, signature, kLarge));
    configs.push_back(best("sm_90a", Pipeline::skinny_tma, signature, kFew));
    configs.push_back(best("sm_80", Pipeline::mma_sm80, signature, kLarge));
  }
  for (const KernelConfig& config : testing::some(of_tight_tiles(), 9)) configs.push_back(config);
  for (const KernelConfig& config : testing::some(of_copied_tensors(), 13)) configs.push_back(config);
  GemmSignature second = kBf16;
  second.mm_plus_mm = true;
  for (const CudaGemmShape& shape : {kLarge, CudaGemmShape{128, 4096, 14336}, CudaGemmShape{512, 4096, 4096}})
    configs.push_back(best("sm_90a", Pipeline::warp_specialized, second, shape));
  configs.push_back(best("sm_90a", Pipeline::skinny_tma, second, kFew));
  configs.push_back(best("sm_80", Pipeline::mma_sm80, second, kLarge));
  std::vector<Source> sources;
  for (const KernelConfig& config : configs) sources.push_back(source_of(config));
  compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
    const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
    ASSERT_NE(kernel, nullptr) << sources[at].name;
    const CudaGemmResources facts = cuda_gemm_resources(configs[at]);
    EXPECT_EQ(kernel->spill_store_bytes, 0) << sources[at].name;
    EXPECT_LE(kernel->registers, facts.launch_registers) << sources[at].name;
    if (facts.producer_registers == 0) return;
    // setmaxnreg waits for ever for registers that the launch did not bring.
    const int warpgroups = facts.warps / 4;
    EXPECT_LE(facts.producer_registers + warpgroups * facts.consumer_registers, kernel->registers * (warpgroups + 1))
        << sources[at].name;
  });
}

/// The instance's text up to its entry, with the host's facts asserted: nothing of the kernel is compiled but its
/// sizes.
Source assertion_source(const KernelConfig& config) {
  Source source = source_of(config);
  const CudaGemmResources facts = cuda_gemm_resources(config);
  std::size_t entry = source.text.find("extern \"C\" __global__ void __launch_bounds__");
  if (entry == std::string::npos) throw std::runtime_error("no entry in " + source.name);
  // The portable template's entry may be left out, for lists.
  if (const auto guard = source.text.find("#ifndef TS_GEMM_OWN_ENTRY"); guard < entry) entry = guard;
  source.text.resize(entry);
  const auto same = [&](std::string_view name, long value) {
    source.text += fmt::format("static_assert(ts::gemm::{} == {}, \"{}\");\n", name, value, name);
  };
  same("kThreads", facts.threads);
  same("kSharedBytes", facts.shared_bytes);
  switch (config.algorithm.pipeline) {
    case Pipeline::weight_only:
      same("kRowBytesB", facts.row_bytes_of_b);
      [[fallthrough]];
    case Pipeline::warp_specialized:
      same("kTileK", facts.stage_k);
      same("kSlabRowBytes", facts.slab_row_bytes);
      same("kCopiedTensor >= 0", facts.copied_tensor);
      same("kSlabsInRing", facts.slabs_in_ring);
      same("kEpilogueOnSums", facts.epilogue_on_sums);
      same("kEntryRegisters", facts.launch_registers);
      same("kConsumerRegisters", facts.consumer_registers);
      same("kSums * ts::gemm::kRowBlocks", facts.accumulators);
      same("kTileWarpgroups", facts.counters);
      break;
    case Pipeline::skinny_tma:
      same("kStageK", facts.stage_k);
      same("kTeam * ts::gemm::kOwnTiles * 16", facts.part_bytes);
      break;
    case Pipeline::skinny:
      same("kStepK", facts.stage_k);
      same("kGroupSums * 4", facts.part_bytes);
      break;
    default:
      same("kTileK", facts.stage_k);
      same("kWarpM * ts::gemm::kWarpN / 32", facts.accumulators);
  }
  source.text += "extern \"C\" __global__ void TS_ENTRY() {}\n";
  return source;
}

TEST_F(CudaGemmKernels, LaunchFactsAreTheTemplates) {
  // Every tile of some signatures, in turn with every width of access.
  std::vector<Source> sources;
  GemmSignature turned = signature_of(DataType::fp16, DataType::fp32, {EpilogueOp::bias, EpilogueOp::add});
  turned.layout_a = MatrixOrder::column;
  turned.layout_b = MatrixOrder::row;
  const GemmSignature gated = signature_of(DataType::fp8, DataType::bf16, {EpilogueOp::swiglu, EpilogueOp::amax});
  const GemmSignature bytes = signature_of(DataType::int8, DataType::int8, {EpilogueOp::scale_n, EpilogueOp::bias});
  const GemmSignature residual = signature_of(DataType::bf16, DataType::bf16, {EpilogueOp::bias, EpilogueOp::add});
  GemmSignature transposed = bytes, words = signature_of(DataType::tf32, DataType::fp32);
  transposed.layout_b = words.layout_b = MatrixOrder::row;
  words.layout_a = MatrixOrder::column;
  std::size_t at = 0;
  GemmSignature weights = with_weights(DataType::bf16, DataType::int4, DataType::bf16);
  weights.epilogue_ops = {EpilogueOp::bias, EpilogueOp::add};
  for (const char* name : {"sm_80", "sm_90a"})
    for (const GemmSignature& signature : {turned, gated, bytes, residual, transposed, words, weights})
      enumerate_cuda_gemm(arch(name), signature, [&](const KernelConfig& config) {
        if (at++ % 5 == 0) sources.push_back(assertion_source(config));
        return true;
      });
  EXPECT_GT(sources.size(), 20u);
  sources = testing::some(sources, 5);
  // Tiles whose results pass through the ring, and those beside them.
  bool in_ring = false;
  at = 0;
  enumerate_cuda_gemm(arch("sm_90a"), kBf16, [&](const KernelConfig& config) {
    if (config.algorithm.wave[0] > 1 && config.algorithm.vector[2] == 8 && at++ % 9 == 0) {
      sources.push_back(assertion_source(config));
      in_ring |= cuda_gemm_resources(config).slabs_in_ring;
    }
    return true;
  });
  EXPECT_TRUE(in_ring);
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

TEST_F(CudaGemmKernels, AWrongFactIsNoticed) {
  Source source = assertion_source(best("sm_90a", Pipeline::warp_specialized, kBf16, kLarge));
  const std::size_t at = source.text.find("kThreads == 384");
  ASSERT_NE(at, std::string::npos);
  source.text.replace(at, 15, "kThreads == 385");
  const Source* const one = &source;
  EXPECT_FALSE(toolchain_->compile({&one, 1}, {}).has_value());
}

}  // namespace
}  // namespace tilesmith
