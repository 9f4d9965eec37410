// The CUDA kernels of convolution: of the sizes that the host computes, and healthy when compiled, which needs NVRTC
// and no GPU. tests/cases/conv compares their results with float64 where there is a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "codegen/generate.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "thorough.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

CudaSpec chip_of(std::string_view arch) {
  const std::vector<CudaSpec> specs = load_cuda_specs().value();
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == arch) return spec;
  throw std::runtime_error("no such architecture");
}

/// The source, with the sizes that the host computes held against the template's.
Source checked_source(const KernelConfig& config, const CudaSpec& spec) {
  const CudaConvResources facts = cuda_conv_resources(config);
  Source source = generate(config, spec).value();
  const Pipeline pipeline = config.algorithm.pipeline;
  const std::string own = pipeline == Pipeline::halo ? "ts::conv" : "ts::gemm";
  const std::string shared = pipeline == Pipeline::mma_sm80 ? "ts::conv::kConvSharedBytes" : own + "::kSharedBytes";
  const bool in_runs = pipeline == Pipeline::grouped || pipeline == Pipeline::stem;
  if ((in_runs || is_mapped(config.algorithm)) && config.algorithm.split_k)
    source.text += fmt::format("static_assert(4 * ts::conv::kPartFloats == {});\n", facts.part_bytes);
  const auto hold = [&](std::string_view bytes, std::string_view threads_of) {
    source.text += fmt::format("static_assert({} == {} && {}::kThreads == {});\n", bytes, facts.shared_bytes,
                               threads_of, facts.threads);
  };
  if (is_banded(config.algorithm) || is_mapped(config.algorithm))
    hold("ts::conv::kSharedBytes", "ts::conv");
  else if (pipeline == Pipeline::direct || pipeline == Pipeline::pointwise || pipeline == Pipeline::rowwise)
    source.text += fmt::format("static_assert(ts::conv::kThreads == {});\n", facts.threads);
  else if (pipeline != Pipeline::depthwise && !in_runs)
    hold(shared, own);
  return source;
}

struct CudaConvKernels : testing::NvrtcFixture {
  /// Of a pipeline's kernels of bf16 for sm_90a those that are wanted, in each direction and with each epilogue.
  template <class Wanted>
  void are_healthy(Pipeline pipeline, std::size_t at_least, int step, Wanted wanted) {
    const CudaSpec spec = chip_of("sm_90a");
    std::vector<Source> sources;
    enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
      const auto& s = std::get<ConvSignature>(config.signature);
      if (config.algorithm.pipeline == pipeline && s.data_type == DataType::bf16 && wanted(config.algorithm, s))
        sources.push_back(checked_source(config, spec));
      return true;
    });
    EXPECT_GE(sources.size(), at_least);
    compile_all(testing::some(sources, step), [](std::size_t, const ResourceReport&) {});
  }
  void are_healthy(Pipeline pipeline, std::size_t at_least) {
    are_healthy(pipeline, at_least, 13, [](const Algorithm&, const ConvSignature&) { return true; });
  }
};

// Every kind of kernel: each row of the table in each direction, with its narrowest accesses, where addresses take most
// registers, and with its widest. Spills are errors of the compile.
TEST_F(CudaConvKernels, AreHealthyAndOfTheHostsSizes) {
  std::vector<Source> sources;
  for (const char* arch : {"sm_90a", "sm_80"}) {
    const CudaSpec spec = chip_of(arch);
    std::vector<KernelConfig> configs;
    listed_cuda_conv_signatures(spec, [&](const ConvSignature& signature) {
      const CudaGemmTile* last = nullptr;
      bool has_two = false;
      walk_cuda_conv(spec, signature, [&](const KernelConfig& config, const CudaGemmTile& row, const auto* refused) {
        if (refused != nullptr) return true;
        if (&row == last && has_two) configs.pop_back();  // between the widest and the narrowest
        has_two = &row == last;
        last = &row;
        configs.push_back(config);
        return true;
      });
      return true;
    });
    ASSERT_FALSE(configs.empty());
    // An odd step takes from every direction, type, epilogue and row.
    for (const KernelConfig& config : testing::some(configs, 601)) sources.push_back(checked_source(config, spec));
    // Kernels with tensor maps have sizes of their own, and are few among them.
    std::erase_if(configs, [](const KernelConfig& config) {
      return !is_banded(config.algorithm) && !is_mapped(config.algorithm);
    });
    for (const KernelConfig& config : testing::some(configs, 67)) sources.push_back(checked_source(config, spec));
  }
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

// Beside 32 sums the places of all filters in a bias took 12 bytes more than the registers.
TEST_F(CudaConvKernels, FirstLayersWithABiasAreHealthyOfFewFilters) {
  const CudaSpec spec = chip_of("sm_90a");
  std::vector<Source> sources;
  enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
    const Algorithm& a = config.algorithm;
    const auto& s = std::get<ConvSignature>(config.signature);
    if (a.pipeline == Pipeline::stem && s.direction == ConvDirection::forward && a.tile[1] == 32 && a.vector[2] == 1 &&
        s.epilogue_ops == GemmEpilogue{EpilogueOp::bias} && s.data_type == DataType::bf16 &&
        s.type_out == DataType::bf16)
      sources.push_back(checked_source(config, spec));
    return true;
  });
  EXPECT_FALSE(sources.empty());
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

// On sm_80 such kernels took more registers than on other chips, and up to 24 bytes went to memory.
TEST_F(CudaConvKernels, SmallGroupsAreHealthyOnOlderChips) {
  std::vector<Source> sources;
  for (const char* arch : {"sm_80", "sm_89"}) {
    const CudaSpec spec = chip_of(arch);
    std::vector<Source> own;
    enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
      const Algorithm& a = config.algorithm;
      if (a.pipeline == Pipeline::grouped && !is_mapped(a) && a.tile[0] == 4 && a.wave[0] == 8 && !a.split_k)
        own.push_back(checked_source(config, spec));
      return true;
    });
    EXPECT_FALSE(own.empty()) << arch;
    std::ranges::move(testing::some(own, 61), std::back_inserter(sources));
  }
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

TEST_F(CudaConvKernels, CopiesOfChannelsAreHealthy) {
  const CudaSpec spec = chip_of("sm_90a");
  std::vector<Source> sources;
  enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
    if (config.algorithm.pipeline == Pipeline::rowwise) sources.push_back(checked_source(config, spec));
    return true;
  });
  EXPECT_EQ(sources.size(), 2u) << "bf16 and fp16, for all directions and results";
  compile_all(sources, [](std::size_t, const ResourceReport&) {});
}

// Pixels, sums and what an epilogue reads are in registers; of boxes also the numbers of two.
TEST_F(CudaConvKernels, FiltersOfOneTapAreHealthy) {
  are_healthy(Pipeline::pointwise, 100);
}
TEST_F(CudaConvKernels, BoxesOfFewChannelsAreHealthy) {
  are_healthy(Pipeline::direct, 100);
}

// Beside scales and a bias results of 32 bits that leave 16 bytes at a time took 8 bytes more than the registers.
TEST_F(CudaConvKernels, SplitSumsBesideTwoVectorsAreHealthy) {
  are_healthy(Pipeline::warp_specialized, 6, 1, [](const Algorithm& a, const ConvSignature& s) {
    return a.split_k && s.direction == ConvDirection::forward && s.type_out == DataType::fp32 && a.tile[1] == 128 &&
           s.epilogue_ops == GemmEpilogue{EpilogueOp::scale_n, EpilogueOp::bias, EpilogueOp::relu};
  });
}

TEST(CudaConvSources, WhatARuleRefusesIsNotGenerated) {
  const CudaSpec spec = chip_of("sm_90a");
  std::size_t refused_widths = 0;
  enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
    KernelConfig wide = config;
    wide.algorithm.vector[0] = 3;
    const auto source = generate(wide, spec);
    EXPECT_FALSE(source.has_value());
    return ++refused_widths < 20;
  });
  EXPECT_EQ(refused_widths, 20u);
}

TEST(CudaConvNames, ReadBack) {
  const CudaSpec spec = chip_of("sm_90a");
  enumerate_cuda_conv(spec, [&](const KernelConfig& config) {
    const auto read = parse_native_name(native_name(config));
    EXPECT_TRUE(read && *read == config) << native_name(config);
    return !::testing::Test::HasFailure();
  });
}

}  // namespace
}  // namespace tilesmith
