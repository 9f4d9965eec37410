// The CUDA kernels of attention backward: of the sizes that the host computes, and healthy when compiled, which needs
// NVRTC and no GPU. tests/cases/attention_bwd compares their results with float64 where there is a GPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/generate.hpp"
#include "codegen/nvrtc_fixture.hpp"
#include "instances/attention_backward/cuda.hpp"
#include "thorough.hpp"

namespace tilesmith {
namespace {

/// The chip with every pipeline that has a template, whether its spec lists it or not.
const CudaSpec& hopper() {
  static const CudaSpec chip = [] {
    std::vector<CudaSpec> all = load_cuda_specs().value();
    for (CudaSpec& spec : all) {
      if (spec.arch.text() != "sm_90a") continue;
      CudaBackwardPipeline flash = spec.attention_bwd.front();
      flash.pipeline = Pipeline::flash;
      flash.tiles = {{.tile_m = 128, .tile_n = 64, .stages = 2, .head_dim = {8, 256}, .efficiency = 0.4}};
      spec.attention_bwd.push_back(flash);
      return spec;
    }
    throw std::runtime_error("no such architecture");
  }();
  return chip;
}

using Change = std::function<void(AttentionSignature&)>;

/// The recipes of a signature, by the tile table.
std::vector<Recipe> recipes_of(int head_dim_qk, int head_dim_v, const Change& change) {
  AttentionSignature s;
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.data_type = DataType::bf16;
  s.head_dim_qk = static_cast<std::uint16_t>(head_dim_qk);
  s.head_dim_v = static_cast<std::uint16_t>(head_dim_v);
  change(s);
  std::vector<Recipe> recipes;
  walk_cuda_backward(hopper(), s, [&](const KernelConfig& config, const CudaBackwardTile&, const auto* refused) {
    if (refused == nullptr) recipes.push_back(cuda_backward_recipe(config));
    return true;
  });
  if (recipes.empty()) throw std::runtime_error("no kernel of this signature");
  return recipes;
}

void nothing(AttentionSignature&) {}
void every_trait(AttentionSignature& s) {
  s.mask = MaskKind::generic;
  s.mode = SequenceMode::group;
  s.bias = BiasKind::elementwise;
  s.dbias = s.dropout = s.soft_cap = s.deterministic = true;
}
void slopes(AttentionSignature& s) {
  s.data_type = DataType::fp16;
  s.mask = MaskKind::causal;
  s.bias = BiasKind::alibi;
  s.dbias = s.deterministic = true;
}

using CudaBackwardKernels = testing::NvrtcFixture;

// The asserts in the text compare the template's sizes with the host's; the spill limits are the sources' own.
TEST_F(CudaBackwardKernels, AreHealthyAndOfTheHostsSizes) {
  std::vector<Source> sources;
  const auto add = [&](int qk, int v, const Change& change, bool only_products) {
    for (const Recipe& recipe : recipes_of(qk, v, change))
      for (const Step& step : recipe.steps) {
        if (only_products && step.role != StepRole::compute) continue;
        const CudaBackwardResources facts = cuda_backward_resources(step.config);
        Result<Source> source = generate(step.config, hopper());
        ASSERT_TRUE(source.has_value()) << source.error().text();
        if (step.role == StepRole::compute)
          source->text += fmt::format("static_assert(ts::kSharedBytes == {} && ts::kThreads == {});\n",
                                      facts.shared_bytes, facts.threads);
        if (step.role == StepRole::compute && step.config.algorithm.pipeline == Pipeline::flash)
          source->text += fmt::format("static_assert(ts::kPassesGradients == {});\n", facts.passes_score_gradients);
        sources.push_back(*source);
      }
  };
  add(64, 64, nothing, false);
  add(128, 128, every_trait, false);
  add(64, 64, every_trait, true);
  add(64, 64, slopes, true);
  add(128, 128, slopes, true);
  add(256, 256, slopes, false);
  const auto bitwise = [](AttentionSignature& s) { s.deterministic = true; };  // wide heads have no other kernels
  add(256, 256, bitwise, true);
  add(
      256, 256,
      [](AttentionSignature& s) {
        s.mode = SequenceMode::group;
        s.deterministic = true;
      },
      true);
  add(192, 64, bitwise, true);  // no room for tiles of gradients
  add(
      192, 128,
      [](AttentionSignature& s) {
        s.mask = MaskKind::causal;
        s.mode = SequenceMode::group;
        s.bias = BiasKind::alibi;
        s.dropout = s.deterministic = true;
      },
      true);
  add(192, 128, every_trait, true);
  add(
      40, 128, [](AttentionSignature& s) { s.dropout = true; }, true);
  add(
      128, 64, [](AttentionSignature& s) { s.mask = MaskKind::generic; }, true);
  const auto float32 = [](AttentionSignature& s) {
    s.data_type = DataType::fp32;
    s.bias = BiasKind::elementwise;
    s.dbias = s.deterministic = true;
  };
  add(128, 128, float32, true);
  add(200, 256, float32, true);
  if (testing::thorough()) {
    for (const int head_dim : {8, 72, 96})
      for (const Change& change : std::vector<Change>{nothing, every_trait, slopes})
        add(head_dim, head_dim, change, false);
  }
  compile_all(testing::some(sources, 3), [](std::size_t, const ResourceReport&) {});
}

/// Instructions of a kernel's PTX that add floats in memory. The assembler makes atomics of nothing else, so the
/// machine code has no more, and no disassembler is needed.
struct FloatAtomics {
  int any_order = 0;  ///< red and atom
  int bulk = 0;       ///< bulk reductions
};

class CudaBackwardPtx : public testing::NvrtcFixture {
 protected:
  FloatAtomics atomics_of(const KernelConfig& config) const {
    const Source source = generate(config, hopper()).value();
    const NvrtcLibrary& nvrtc = toolchain_->library();
    void* const handle = ::dlopen(nvrtc.path().c_str(), RTLD_NOW);
    using Code = NvrtcLibrary::Code;
    const auto ptx_size =
        reinterpret_cast<Code (*)(NvrtcLibrary::Program, std::size_t*)>(::dlsym(handle, "nvrtcGetPTXSize"));
    const auto ptx = reinterpret_cast<Code (*)(NvrtcLibrary::Program, char*)>(::dlsym(handle, "nvrtcGetPTX"));
    if (ptx_size == nullptr || ptx == nullptr) throw std::runtime_error("NVRTC gives no PTX");
    NvrtcLibrary::Program program = nullptr;
    std::vector<const char*> options{"--gpu-architecture=compute_90a"};
    for (const std::string& option : source.options) options.push_back(option.c_str());
    std::string text;
    std::size_t size = 0;
    const bool compiled =
        nvrtc.create_program(&program, source.text.c_str(), source.name.c_str(), 0, nullptr, nullptr) ==
            Code::success &&
        nvrtc.compile_program(program, static_cast<int>(options.size()), options.data()) == Code::success &&
        ptx_size(program, &size) == Code::success;
    if (compiled) {
      text.resize(size);
      ptx(program, text.data());
    }
    nvrtc.destroy_program(&program);
    if (text.find(source.entry_symbol) == std::string::npos) throw std::runtime_error("no PTX of " + source.name);
    FloatAtomics found;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const bool is_float =
          word.find(".f32") != word.npos || word.find("f16") != word.npos || word.find(".f64") != word.npos;
      if ((word.starts_with("red.") || word.starts_with("atom.")) && is_float) ++found.any_order;
      if (word.starts_with("cp.reduce.async.bulk.")) ++found.bulk;
    }
    return found;
  }
};

TEST_F(CudaBackwardPtx, KernelsOfAFixedOrderAddNoFloatsAtomically) {
  const auto of = [](DataType type, MaskKind mask, BiasKind bias, bool dbias) {
    return [=](AttentionSignature& s) {
      s.data_type = type;
      s.mask = mask;
      s.bias = bias;
      s.dbias = dbias;
      s.deterministic = true;
    };
  };
  const Change plain = of(DataType::bf16, MaskKind::none, BiasKind::none, false);
  const Change bias = of(DataType::fp16, MaskKind::causal, BiasKind::elementwise, true);
  const Change alibi = of(DataType::fp32, MaskKind::causal, BiasKind::alibi, true);
  for (const auto& [head_dim, change] : {std::pair{64, plain}, {128, plain}, {256, plain}, {64, bias}, {64, alibi}})
    for (const Recipe& recipe : recipes_of(head_dim, head_dim, change))
      for (const Step& step : recipe.steps) {
        const FloatAtomics found = atomics_of(step.config);
        const bool in_turn =
            step.role == StepRole::compute && step.config.algorithm.pipeline == Pipeline::warp_specialized;
        EXPECT_EQ(found.any_order, 0) << generate(step.config, hopper())->name;
        // Each waits for its turn (hopper/writer.cuh).
        EXPECT_EQ(found.bulk, in_turn ? 1 : 0) << generate(step.config, hopper())->name;
      }
  // The others have some, so they would be seen.
  for (const Recipe& recipe : recipes_of(64, 64, nothing)) {
    if (recipe.main().algorithm.pipeline != Pipeline::warp_specialized) continue;
    EXPECT_GT(atomics_of(recipe.main()).any_order, 0);
  }
}

TEST(CudaBackwardSources, WhatARuleRefusesIsNotGenerated) {
  KernelConfig config = recipes_of(64, 64, nothing).front().main();
  config.attention().soft_cap = true;
  const auto refused = generate(config, hopper());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("rule traits_leave_registers"), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace tilesmith
