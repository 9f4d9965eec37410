// Generated CUDA attention sources: self-contained, healthy when compiled, and of the sizes that the host computes. The
// compiling tests need NVRTC and no GPU.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "choose/attention/cuda.hpp"
#include "codegen/generate.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "instances/attention/cuda.hpp"
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

AttentionSignature signature_of(int head_dim_qk, int head_dim_v, DataType type, MaskKind mask) {
  AttentionSignature signature;
  signature.data_type = type;
  signature.head_dim_qk = static_cast<std::uint16_t>(head_dim_qk);
  signature.head_dim_v = static_cast<std::uint16_t>(head_dim_v);
  signature.mask = mask;
  signature.lse = true;
  return signature;
}

/// The pipeline's best instance for sequences of 4096.
KernelConfig best(std::string_view on, Pipeline pipeline, const AttentionSignature& signature) {
  const bool decode = pipeline == Pipeline::decode;
  const CudaAttentionShape shape{
      .batch = 4, .heads_q = 16, .heads_kv = 16, .seqlen_q = decode ? 1 : 4096, .seqlen_k = 4096};
  for (const Candidate& one : ranked_cuda_attention(arch(on), signature, shape))
    if (one.recipe.main().algorithm.pipeline == pipeline) return one.recipe.main();
  throw std::runtime_error("no such instance");
}

Source source_of(const KernelConfig& config) {
  const auto source = generate(config, arch(config.arch.text()));
  if (!source) throw std::runtime_error(source.error().text());
  return *source;
}

const Pipeline kHopper = Pipeline::warp_specialized, kPortable = Pipeline::mma_sm80, kDecode = Pipeline::decode;

TEST(CudaAttentionSource, IsOneTextWithoutIncludes) {
  for (const Pipeline pipeline : {kHopper, kPortable, kDecode}) {
    const KernelConfig config = best("sm_90a", pipeline, signature_of(128, 128, DataType::bf16, MaskKind::causal));
    const Source source = source_of(config);
    EXPECT_EQ(source.name, native_name(config));
    EXPECT_EQ(source.entry_symbol, source.name);
    EXPECT_EQ(source.arch, "sm_90a");
    EXPECT_EQ(source.language, Language::cuda);
    EXPECT_EQ(source.text.find("#include"), std::string::npos);
    EXPECT_EQ(source.text.find("#pragma once"), std::string::npos);
    const std::string mark = "// ---- cuda/common/common.cuh\n";
    const auto first = source.text.find(mark);
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(source.text.find("constexpr float kLog2e"), source.text.rfind("constexpr float kLog2e"));
    EXPECT_NE(source.text.find("#define TS_ENTRY " + source.name), std::string::npos);
  }
}

TEST(CudaAttentionSource, WhatARuleRefusesIsNotGenerated) {
  KernelConfig config = best("sm_90a", kHopper, signature_of(128, 128, DataType::bf16, MaskKind::none));
  config.algorithm.stages = 4;
  const auto refused = generate(config, arch("sm_90a"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("rule shared_memory_fits"), std::string::npos) << refused.error().text();
  EXPECT_FALSE(generate(best("sm_80", kPortable, config.attention()), arch("sm_86")).has_value());
}

class CudaAttentionKernels : public testing::NvrtcFixture {
 protected:
  /// Compiles instances and compares what they take with the host's facts.
  void check_instances(const std::vector<KernelConfig>& configs, bool spills) {
    std::vector<Source> sources;
    for (const KernelConfig& config : configs) {
      sources.push_back(source_of(config));
      if (!spills) sources.back().spill_limit_bytes = 0;
    }
    compile_all(sources, [&](std::size_t at, const ResourceReport& report) {
      const FunctionResources* const kernel = report.kernel(sources[at].entry_symbol);
      ASSERT_NE(kernel, nullptr) << sources[at].name;
      const CudaAttentionResources facts = cuda_attention_resources(configs[at]);
      // A few words at most, where the rules say that the tile holds.
      EXPECT_LE(kernel->spill_store_bytes, 64) << sources[at].name;
      if (facts.persistent) {
        EXPECT_LE(kernel->registers, facts.launch_registers + 15) << sources[at].name;
        // setmaxnreg waits for ever for registers that the launch did not bring.
        EXPECT_LE(facts.producer_registers + facts.warpgroups * facts.consumer_registers,
                  kernel->registers * (facts.warpgroups + 1))
            << sources[at].name;
      } else {
        EXPECT_LE(kernel->registers, facts.launch_registers) << sources[at].name;
        // Of fp32 the compiler loads operands ahead into whatever registers there are.
        const bool loads_ahead = configs[at].attention().data_type == DataType::fp32;
        // Where there are more registers than needed, decode has more loads under way.
        if (!is_decode(configs[at].algorithm.pipeline)) {
          EXPECT_LE(kernel->registers, loads_ahead ? 255 : facts.needed_registers) << sources[at].name;
        }
      }
    });
  }
};

/// Every head dim in bf16, some without a mask. fp16 is the same text but for a constant: one head dim tells.
std::vector<KernelConfig> essential(std::string_view on, Pipeline pipeline) {
  std::vector<KernelConfig> configs;
  const auto add = [&](int qk, int v, DataType type, MaskKind mask) {
    configs.push_back(best(on, pipeline, signature_of(qk, v, type, mask)));
  };
  constexpr std::pair<int, int> kHeadDims[] = {{32, 32},   {64, 64},   {96, 96},  {128, 128},
                                               {192, 128}, {192, 192}, {256, 256}};
  for (const auto& [qk, v] : kHeadDims) add(qk, v, DataType::bf16, MaskKind::causal);
  for (const int dim : {64, 128, 256}) add(dim, dim, DataType::bf16, MaskKind::none);
  add(128, 128, DataType::fp16, MaskKind::causal);
  return configs;
}

TEST_F(CudaAttentionKernels, EssentialHopper) {
  check_instances(testing::some(essential("sm_90a", kHopper), 3), false);
}
TEST_F(CudaAttentionKernels, EssentialPortable) {
  // The text for sm_90a differs by a constant.
  check_instances(essential("sm_80", kPortable), false);
  check_instances({best("sm_90a", kPortable, signature_of(128, 128, DataType::bf16, MaskKind::causal))}, false);
}
TEST_F(CudaAttentionKernels, PortableInFp32AndWide) {
  std::vector<KernelConfig> configs;
  for (const int dim : {24, 64, 128, 256, 512})
    configs.push_back(best("sm_80", kPortable, signature_of(dim, dim, DataType::fp32, MaskKind::causal)));
  configs.push_back(best("sm_80", kPortable, signature_of(128, 128, DataType::tf32, MaskKind::causal)));
  configs.push_back(best("sm_80", kPortable, signature_of(512, 512, DataType::bf16, MaskKind::causal)));
  AttentionSignature all = signature_of(256, 256, DataType::fp32, MaskKind::generic);
  all.mode = SequenceMode::group, all.bias = BiasKind::elementwise;
  all.dropout = all.soft_cap = all.sink = true;
  configs.push_back(best("sm_80", kPortable, all));
  check_instances(testing::some(configs, 3), true);
}

TEST_F(CudaAttentionKernels, DecodeIsHealthy) {
  std::vector<KernelConfig> configs;
  for (const auto& [qk, v] : {std::pair(64, 64), std::pair(128, 128), std::pair(192, 128), std::pair(256, 256)}) {
    AttentionSignature plain = signature_of(qk, v, DataType::bf16, MaskKind::causal), all = plain;
    all.mask = MaskKind::generic, all.mode = SequenceMode::group, all.bias = BiasKind::elementwise;
    all.soft_cap = all.sink = all.paged_kv = true;
    AttentionSignature narrow = all, narrow_rows = all;
    narrow.cache = KvElements::fp8;
    narrow_rows.cache = KvElements::int8;
    narrow_rows.qscale = QuantScale::kv_blockscale;
    for (const AttentionSignature& signature : {plain, all, narrow, narrow_rows})
      enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
        if (is_decode(config.algorithm.pipeline)) configs.push_back(config);
        return true;
      });
  }
  EXPECT_EQ(configs.size(), 59u);
  AttentionSignature latent = signature_of(576, 512, DataType::bf16, MaskKind::causal);
  latent.latent = true;
  AttentionSignature paged = latent;
  paged.mask = MaskKind::generic, paged.mode = SequenceMode::group, paged.bias = BiasKind::elementwise;
  paged.soft_cap = paged.sink = paged.paged_kv = true;
  AttentionSignature narrower = paged;
  narrower.head_dim_qk = 320, narrower.head_dim_v = 256;
  AttentionSignature latent_fp8 = paged, latent_int8 = paged, latent_half = latent;
  latent_fp8.cache = KvElements::fp8;
  latent_int8.cache = latent_half.cache = KvElements::int8;
  latent_int8.qscale = QuantScale::kv_blockscale;
  latent_half.data_type = DataType::fp16;
  for (const AttentionSignature& signature : {latent, paged, narrower, latent_fp8, latent_int8, latent_half})
    enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
      configs.push_back(config);
      return true;
    });
  EXPECT_EQ(configs.size(), 88u);
  check_instances(testing::some(configs, 7), true);
}

// What a group's sequences need beside 128 sums of a thread once spilled 36 to 64 bytes.
TEST_F(CudaAttentionKernels, WideLatentRowsOfGroupsAreHealthy) {
  std::vector<KernelConfig> configs;
  for (const DataType type : {DataType::bf16, DataType::fp16}) {
    AttentionSignature signature =
        signature_of(576, 512, type, type == DataType::bf16 ? MaskKind::none : MaskKind::causal);
    signature.mode = SequenceMode::group, signature.latent = signature.paged_kv = true;
    signature.lse = type == DataType::bf16;
    enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == Pipeline::decode && config.algorithm.tile[0] == 64) configs.push_back(config);
      return true;
    });
  }
  EXPECT_EQ(configs.size(), 2u);
  check_instances(configs, true);
}

// Those without a mask of fp16 and int8 once spilled 40 bytes.
TEST_F(CudaAttentionKernels, NarrowLatentRowsByWgmmaAreHealthy) {
  std::vector<KernelConfig> configs;
  for (const DataType type : {DataType::bf16, DataType::fp16})
    for (const KvElements cache : {KvElements::int8, KvElements::fp8})
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal, MaskKind::generic})
        for (const bool others : {false, true}) {
          AttentionSignature signature = signature_of(576, 512, type, mask);
          signature.latent = true, signature.cache = cache;
          signature.paged_kv = signature.lse = others || mask == MaskKind::none;
          if (others) signature.mode = SequenceMode::group, signature.sink = true;
          enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
            if (config.algorithm.pipeline == Pipeline::decode_wgmma) configs.push_back(config);
            return true;
          });
        }
  EXPECT_EQ(configs.size(), 68u);
  check_instances(testing::some(configs, 11), true);
}

// Those of 32 queries once spilled 32 bytes.
TEST_F(CudaAttentionKernels, NarrowLatentRowsOfWindowsWithALogSumExpAreHealthy) {
  std::vector<KernelConfig> configs;
  for (const KvElements cache : {KvElements::int8, KvElements::fp8}) {
    AttentionSignature signature = signature_of(576, 512, DataType::bf16, MaskKind::generic);
    signature.latent = signature.lse = signature.paged_kv = true, signature.cache = cache;
    enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == Pipeline::decode_wgmma) configs.push_back(config);
      return true;
    });
  }
  EXPECT_EQ(configs.size(), 4u);
  check_instances(configs, true);
}

TEST_F(CudaAttentionKernels, RowsThatEndWithinAColumnAreHealthy) {
  std::vector<KernelConfig> configs;
  for (const auto& [qk, v] : {std::pair(40, 40), std::pair(72, 72), std::pair(120, 120), std::pair(24, 128),
                              std::pair(184, 128), std::pair(200, 248)})
    for (const bool traits : {false, true}) {
      AttentionSignature signature = signature_of(qk, v, DataType::bf16, MaskKind::causal);
      if (traits) signature.mode = SequenceMode::group, signature.sink = true;
      enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
        // Three blocks' producers spill 72 bytes in groups, whatever the head dim.
        const bool spills = traits && config.algorithm.block_per_cu > 2;
        if (config.algorithm.pipeline == kHopper && !spills) configs.push_back(config);
        return true;
      });
    }
  EXPECT_GT(configs.size(), 60u);
  check_instances(testing::some(configs, 17), true);
}

TEST_F(CudaAttentionKernels, TraitsAreHealthy) {
  std::vector<KernelConfig> configs;
  const auto add = [&](int head_dim, auto change) {
    AttentionSignature signature = signature_of(head_dim, head_dim, DataType::bf16, MaskKind::causal);
    change(signature);
    configs.push_back(best("sm_90a", kHopper, signature));
  };
  using S = AttentionSignature;
  const auto everything = [](S& s) {
    s.mask = MaskKind::generic, s.mode = SequenceMode::group, s.bias = BiasKind::elementwise;
    s.dropout = s.soft_cap = s.sink = true;
  };
  // Traits that touch different parts of a kernel share one; each instance takes seconds.
  add(128, everything);
  add(128, [](S& s) { s.mode = SequenceMode::group, s.bias = BiasKind::elementwise; });
  add(128, [](S& s) { s.mask = MaskKind::generic, s.bias = BiasKind::alibi; });
  add(128, [](S& s) { s.dropout = s.sink = s.negative_scale = true; });
  add(64, [](S& s) { s.soft_cap = true; });
  add(128, [](S& s) { s.soft_cap = true; });
  add(256, [](S& s) { s.soft_cap = s.sink = true; });
  add(128, [](S& s) { s.data_type = DataType::fp8bf16, s.qscale = QuantScale::pertensor; });
  add(64, everything);
  check_instances(testing::some(configs, 4), true);
  AttentionSignature all = signature_of(256, 256, DataType::fp16, MaskKind::causal);
  everything(all);
  check_instances({best("sm_80", kPortable, all)}, true);
}

/// The instance's text up to its entry, with the host's facts asserted: nothing of the kernel is compiled but its
/// sizes.
Source assertion_source(const KernelConfig& config) {
  Source source = source_of(config);
  const CudaAttentionResources facts = cuda_attention_resources(config);
  const std::size_t entry = source.text.find("extern \"C\" __global__ void __launch_bounds__");
  if (entry == std::string::npos) throw std::runtime_error("no entry in " + source.name);
  source.text.resize(entry);
  const auto same = [&](std::string_view name, long value) {
    source.text += "static_assert(ts::" + std::string(name) + " == " + std::to_string(value) + ", \"" +
                   std::string(name) + "\");\n";
  };
  same("kThreads", facts.threads);
  same("kSharedBytes", facts.shared_bytes);
  same("kTileM", facts.tile_rows);
  same(is_decode(config.algorithm.pipeline) ? "kTileKeys" : "cfg::kTileN", facts.tile_keys);
  if (is_decode(config.algorithm.pipeline)) same("kClusterPartOffset > 0", facts.joins_in_cluster ? 1 : 0);
  if (config.algorithm.pipeline == Pipeline::decode_wgmma) {
    same("kProducerRegisters", facts.producer_registers);
    same("kConsumerRegisters", facts.consumer_registers);
  }
  if (facts.persistent) {
    same("cfg::kBlocksPerSm", facts.blocks_per_sm);
    same("kEntryRegisters", facts.launch_registers);
    same("kProducerRegisters", facts.producer_registers);
    same("kConsumerRegisters", facts.consumer_registers);
    same("kSharedBias", facts.bias_map ? 1 : 0);
    same("kExactBoxes", facts.exact_boxes ? 1 : 0);
    same("kFreeWarps", facts.free_warps);
  }
  source.text += "extern \"C\" __global__ void TS_ENTRY() {}\n";
  return source;
}

TEST_F(CudaAttentionKernels, LaunchFactsAreTheTemplates) {
  std::vector<Source> sources;
  AttentionSignature fp8 = signature_of(128, 128, DataType::fp8bf16, MaskKind::none);
  fp8.qscale = QuantScale::pertensor;
  for (const int dim : {64, 128}) {
    fp8.head_dim_qk = fp8.head_dim_v = static_cast<std::uint16_t>(dim);
    sources.push_back(assertion_source(best("sm_90a", kHopper, fp8)));
  }
  for (const char* name : {"sm_80", "sm_90a"})
    for (const auto& [qk, v] : {std::pair(40, 40), std::pair(128, 128), std::pair(192, 128), std::pair(200, 256)})
      for (const bool traits : {false, true}) {
        AttentionSignature signature = signature_of(qk, v, DataType::bf16, MaskKind::generic);
        signature.dropout = traits;
        signature.bias = traits ? BiasKind::elementwise : BiasKind::none;
        constexpr int kPacked[] = {1, 4};
        for (const auto& [wide, type] : {std::pair(qk, DataType::fp32), std::pair(2 * qk, DataType::fp16)}) {
          AttentionSignature other = signature;
          other.data_type = type;
          other.head_dim_qk = static_cast<std::uint16_t>(wide);
          for (const Candidate& one : ranked_cuda_attention(arch(name), other, {}))
            if (one.recipe.main().algorithm.pipeline == kPortable)
              sources.push_back(assertion_source(one.recipe.main()));
        }
        enumerate_cuda_attention(arch(name), signature, kPacked, [&](const KernelConfig& config) {
          if (config.algorithm.pack_gqa == (sources.size() % 2 == 0 ? 1 : 4) || config.algorithm.pipeline != kHopper)
            sources.push_back(assertion_source(config));
          return true;
        });
      }
  AttentionSignature narrow = signature_of(80, 112, DataType::bf16, MaskKind::causal);
  narrow.cache = KvElements::int8;
  narrow.paged_kv = true;
  for (const QuantScale scale : {QuantScale::none, QuantScale::kv_blockscale}) {
    narrow.qscale = scale;
    enumerate_cuda_attention(arch("sm_90a"), narrow, std::array{1}, [&](const KernelConfig& config) {
      sources.push_back(assertion_source(config));
      return true;
    });
  }
  for (const auto& [qk, v] : {std::pair(64, 64), std::pair(192, 128), std::pair(256, 256)})
    for (const KvElements cache : {KvElements::as_queries, KvElements::fp8}) {
      AttentionSignature pages = signature_of(qk, v, DataType::bf16, MaskKind::generic);
      pages.paged_kv = true;
      pages.cache = cache;
      enumerate_cuda_attention(arch("sm_90a"), pages, std::array{1}, [&](const KernelConfig& config) {
        if (config.algorithm.pipeline == kHopper) sources.push_back(assertion_source(config));
        return true;
      });
    }
  AttentionSignature latent = signature_of(576, 512, DataType::bf16, MaskKind::causal);
  latent.latent = true;
  AttentionSignature latent_fp8 = latent;
  latent_fp8.cache = KvElements::fp8;
  latent_fp8.paged_kv = true;
  AttentionSignature latent_half = latent_fp8, latent_narrow = latent_fp8;
  latent_half.data_type = DataType::fp16;
  latent_narrow.head_dim_qk = 400, latent_narrow.head_dim_v = 256;
  latent_fp8.qscale = QuantScale::kv_blockscale;
  for (const AttentionSignature& signature : {latent, latent_fp8, latent_half, latent_narrow})
    enumerate_cuda_attention(arch("sm_90a"), signature, std::array{1}, [&](const KernelConfig& config) {
      sources.push_back(assertion_source(config));
      return true;
    });
  EXPECT_GT(sources.size(), 48u);
  compile_all(testing::some(sources, 6), [](std::size_t, const ResourceReport&) {});
}

TEST_F(CudaAttentionKernels, AWrongFactIsNoticed) {
  KernelConfig config = best("sm_90a", kHopper, signature_of(128, 128, DataType::bf16, MaskKind::none));
  Source source = assertion_source(config);
  const std::size_t at = source.text.find("kThreads == 384");
  ASSERT_NE(at, std::string::npos);
  source.text.replace(at, 15, "kThreads == 385");
  const Source* const one = &source;
  EXPECT_FALSE(toolchain_->compile({&one, 1}, {}).has_value());
}

}  // namespace
}  // namespace tilesmith
