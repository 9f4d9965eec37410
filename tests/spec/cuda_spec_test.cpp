// The NVIDIA facts load, a device finds its architecture, and a broken spec is refused with file, path and value.
#include "spec/cuda/spec.hpp"

#include <gtest/gtest.h>

#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

const std::vector<CudaSpec>& specs() {
  static const std::vector<CudaSpec> all = load_cuda_specs().value();
  return all;
}

TEST(CudaSpec, EveryArchitectureLoadsByCapability) {
  std::vector<std::string> names;
  for (const CudaSpec& spec : specs()) {
    names.emplace_back(spec.arch.text());
    EXPECT_EQ(spec.tested, spec.arch.text() == "sm_90a") << names.back();
    EXPECT_FALSE(spec.source.empty());
    EXPECT_GT(spec.reference.tflops_of(DataType::bf16), 0) << names.back();
    ASSERT_FALSE(spec.attention_fwd.empty());
    EXPECT_EQ(spec.attention_pipeline(Pipeline::warp_specialized) != nullptr, spec.arch.text() == "sm_90a");
    // The portable pipeline has a first choice for every problem; behind it comes only those for few queries.
    std::vector<Pipeline> order;
    for (const CudaAttentionPipeline& one : spec.attention_fwd) order.push_back(one.pipeline);
    while (is_decode(order.back())) order.pop_back();
    EXPECT_EQ(order.back(), Pipeline::mma_sm80);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}));
}

TEST(CudaSpec, Fp8RateServesTheCompoundTypes) {
  const CudaReferenceChip& chip = (*spec_for(specs(), 9, 0))->reference;
  EXPECT_EQ(chip.tflops_of(DataType::fp8bf16), chip.tflops_of(DataType::fp8));
  EXPECT_EQ(chip.tflops_of(DataType::fp64), 0);
}

TEST(CudaSpec, DevicesFindTheirArchitecture) {
  const auto arch_of = [](int major, int minor) {
    const auto spec = spec_for(specs(), major, minor);
    return spec ? std::string((*spec)->arch.text()) : spec.error().message;
  };
  EXPECT_EQ(arch_of(8, 0), "sm_80");
  EXPECT_EQ(arch_of(8, 6), "sm_86");
  EXPECT_EQ(arch_of(8, 7), "sm_86");  // a plain architecture runs on later capabilities of its major number
  EXPECT_EQ(arch_of(8, 9), "sm_89");
  EXPECT_EQ(arch_of(9, 0), "sm_90a");
  EXPECT_EQ(arch_of(10, 0), "sm_100a");
  EXPECT_EQ(arch_of(12, 0), "sm_120a");
  // An architecture made for one capability runs on no other.
  EXPECT_EQ(arch_of(10, 3), "no architecture is known for compute capability 10.3");
  EXPECT_EQ(arch_of(12, 1), "no architecture is known for compute capability 12.1");
  EXPECT_EQ(arch_of(7, 5), "no architecture is known for compute capability 7.5");
  EXPECT_NE(spec_for(specs(), 7, 5).error().hint.find("sm_90a"), std::string::npos);
}

TEST(CudaSpec, ListsHaveALimitWhereSingleProductsHaveFasterKernels) {
  for (const CudaSpec& spec : specs())
    EXPECT_EQ(spec.gemm.list_gflop.has_value(), spec.gemm.pipeline(Pipeline::warp_specialized) != nullptr)
        << spec.arch.text();
  EXPECT_EQ((*spec_for(specs(), 9, 0))->gemm.list_gflop, 1.0);
}

std::string error_with(std::string_view from, std::string_view to) {
  std::string text = *spec_file_text("cuda/sm_90a.json");
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  const auto spec = parse_cuda_spec("x.json", text.replace(at, from.size(), to));
  EXPECT_FALSE(spec.has_value()) << to;
  return spec ? std::string() : spec.error().text();
}

TEST(CudaSpec, BrokenOnesSayFilePathValueAndWhatWouldBeRight) {
  const auto says = [](std::string_view from, std::string_view to, std::string_view expected) {
    const std::string error = error_with(from, to);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  };
  says("\"warp_size\": 32", "\"warp_size\": 64", "x.json: $.warp_size is 64 (an integer from 32 to 32)");
  says("[9, 0]", "[9]", "x.json: $.compute_capability is [9] ([major, minor])");
  says("[9, 0]", "[9, 1]", "the figures of sm_90a");
  says("\"tested\": true", "\"tested\": 1", "$.tested is 1 (true or false)");
  says("\"per_block\": 232448", "\"per_block\": 999999999", "$.shared.per_block is 999999999");
  says("\"wgmma\": [", "\"wgma\": [", "is no instruction");
  says("\"warpspec\": {", "\"warpspek\": {", "did you mean warpspec");
  says("[1, 2, 4, 8, 16]", "[2, 4]", "1 first");
  says("\"pack_gqa_share\": 0.875,", "", "pack_gqa_share");
  says("\"pack_gqa_share\": 0.875", "\"pack_gqa_share\": 1.5", "at most 1");
  says("\"efficiency_without_row\": 0.3", "\"efficiency_without_row\": 3", "at most 1");
  says("\"efficiency_without_row\": 0.3,", "", "efficiency_without_row");
  says("\"tile\": [64, 64]", "\"tile\": [64]", ".tile is [64] ([query rows, keys])");
  says("\"q_stages\": 2", "\"q_stages\": 3", "q_stages is 3 (an integer from 1 to 2)");
  says("\"efficiency\": 0.5", "\"efficiency\": 1.5", "at most 1");
  says("\"efficiency\": 0.5", "\"efficiency\": -1", "above 0");
  says("[0, 2047]", "[2047, 0]", "[lowest, highest]");
  says("\"masked\": true", "\"maskd\": true", "did you mean 'masked'");
  says("\"list_gflop\": 1", "\"list_gflop\": -1", "x.json: $.gemm.list_gflop is -1 (a number of at least 0)");
  says("\"list_gflop\": 1", "\"list_gflops\": 1", "did you mean 'list_gflop'");
  says("\"launch_us\": 2.5", "\"launch_us\": null", "$.reference.launch_us is");
  says("\"reached_bandwidth\": 0.9", "\"reached_bandwidth\": 1.9", "a share of at most 1");
  says("\"join\": {\"us\": 2.0, ", "\"join\": {", "us");
  says("\"step\": 0.94", "\"step\": 9.4", "$.gemm.int8_ping_pong.step is 9.4");
  says("\"rows_of_tiles\": 8", "\"rows_of_tiles\": -8",
       "$.gemm.late_launch_dependents.rows_of_tiles is -8 (a number of at least 0)");
  says("\"rows_of_tiles\": 8, ", "", "rows_of_tiles");
  says("\"first_choice_share\": 0.91", "\"first_choice_share\": 1.5",
       "$.attention_fwd.model.first_choice_share is 1.5");
  says("\"dealt_uneven_times\": 1.07", "\"dealt_uneven_times\": 0.9",
       "$.attention_fwd.model.dealt_uneven_times is 0.9");
  says("\"idle_rows\": 0.2", "\"idle_rows\": 2", "$.attention_fwd.model.idle_rows is 2");
  says("\"uneven_end\": 0.1", "\"uneven_end\": -0.1", "$.attention_fwd.model.uneven_end is -0.1");
  says("\"missing_block\": 0.2", "\"missing_block\": 20", "$.attention_fwd.model.missing_block is 20");
  says("\"neighbours\": 16", "\"neighbours\": 0", "$.gemm.neighbours is 0");
  says("\"one_round\": {\"power\": 3", "\"one_round\": {\"power\": 0", "$.gemm.one_round.power is 0");
  says("\"soon_shared\": 1.43", "\"soon_shared\": 0", "$.gemm.pair.soon_shared is 0");
  says("\"copies_once\": 1.85", "\"copies_one\": 1.85", "did you mean 'copies_once'");
  says("\"sum_ns\": 0.3", "\"sum_ns\": 0", "$.gemm.stream.mma.sum_ns is 0");
  says("\"shared_more\": 0.02", "\"shared_mor\": 0.02", "did you mean 'shared_more'");
  says("\"placed\": {\"blocks\": 8", "\"placed\": {\"blocks\": 1", "$.gemm.placed.blocks is 1");
  says("\"rest_box_ns\": 2.5", "\"rest_box_ns\": -1", "$.attention_fwd.model.rest_box_ns is -1");
  says("\"element_ns\": 0.135", "\"element_ns\": -1", "$.attention_fwd.model.element_ns is -1");
  says("\"row_copies\": {\"launch_us\": 3.6, ", "\"row_copies\": {", "launch_us");
  says("\"two_rows\": 4", "\"two_rows\": 0", "$.gemm.overlap.two_rows is 0");
  says("\"enough_sms\": ", "\"enough\": ", "enough_sms");
  says("\"cut_box_ns\": 4.0", "\"cut_box_ns\": 0", "$.attention_fwd.model.cut_box_ns is 0");
  says("\"round_us\": ", "\"round_us\": -", "above 0");
  says("\"times\": 2.54", "\"times\": 0", "$.attention_fwd.model.narrow_keys[0].times is 0");
  says("\"head_dim\": 128, \"times\"", "\"head_dim\": 64, \"times\"",
       "$.attention_fwd.model.narrow_keys[1].head_dim is 64");
  says("\"piece_steps\": 1,", "\"piece_steps\": 0,", "model.list.piece_steps is 0");
  says("\"busy\": 0.9", "\"busy\": 1.9", "list.busy is 1.9 (a share of at most 1)");
  says("\"prefetch_bytes\": ", "\"prefetch_bytes\": -", "prefetch_bytes is -");
  says("\"short_steps\": ", "\"short_step\": ", "did you mean 'short_steps'");
  says("\"launch\": ", "\"lanuch\": ", "a coefficient of launch, rounds, steps");
  says("\"launch\": ", "\"launch\": -", "(a number of at least 0)");
  says("\"section_blocks\": ", "\"section_blocks\": -",
       "$.attention_bwd.pipelines.flash.passed_gradients.section_blocks is -");
  says("\"most_bytes\": ", "\"most_byte\": ", "did you mean 'most_bytes'");
  says("\"most_bytes\": 2000000000, \"efficiency\": 0", "\"most_bytes\": 2000000000, \"efficiency\": 9",
       "passed_gradients.efficiency is 9");
  says("\"tflops\": {\"bf16\"", "\"tflops\": {\"bf61\"", "is no data type");
}

}  // namespace
}  // namespace tilesmith
