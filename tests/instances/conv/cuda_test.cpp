// NVIDIA convolution instances: the list is what the rules accept, every instance is distinct, every rule refuses
// something and says its figures.
#include "instances/conv/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

const CudaSpec& conv_arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  return *std::ranges::find_if(specs, [&](const CudaSpec& spec) { return spec.arch.text() == name; });
}

ConvSignature& conv_of(KernelConfig& config) {
  return std::get<ConvSignature>(config.signature);
}

bool is_plain(const Algorithm& a) {
  return !is_banded(a) && !is_mapped(a);
}

/// The first instance of a pipeline, type, direction and form that the chip lists.
KernelConfig listed_conv(Pipeline pipeline, DataType type = DataType::bf16,
                         ConvDirection direction = ConvDirection::forward,
                         bool (*is_of_form)(const Algorithm&) = is_plain) {
  KernelConfig found;
  enumerate_cuda_conv(conv_arch("sm_90a"), [&](const KernelConfig& config) {
    const auto& s = std::get<ConvSignature>(config.signature);
    found = config;
    return config.algorithm.pipeline != pipeline || s.data_type != type || s.direction != direction ||
           !is_of_form(config.algorithm);
  });
  return found;
}

std::string refusing(const KernelConfig& config, std::string_view arch = "sm_90a") {
  const CudaConvRule* rule = cuda_conv_refusal({config, conv_arch(arch)});
  return rule == nullptr ? "" : std::string(rule->name);
}

TEST(CudaConv, EveryInstanceIsDistinctItsNameParsesAndItIsAccepted) {
  for (const char* name : {"sm_80", "sm_89", "sm_90a"}) {
    std::unordered_set<std::string> names;
    enumerate_cuda_conv(conv_arch(name), [&](const KernelConfig& config) {
      const std::string text = native_name(config);
      EXPECT_TRUE(names.insert(text).second) << text;
      if (names.size() % 17 != 0) return true;
      const auto parsed = parse_native_name(text);
      EXPECT_TRUE(parsed.has_value() && *parsed == config) << text;
      EXPECT_EQ(refusing(config, name), "") << text;
      EXPECT_NE(cuda_conv_row(config, conv_arch(name)), nullptr) << text;
      return true;
    });
    EXPECT_GT(names.size(), 1000u) << name;
  }
}

TEST(CudaConv, StopsWhenTheSinkHasEnough) {
  int calls = 0;
  enumerate_cuda_conv(conv_arch("sm_90a"), [&](const KernelConfig&) { return ++calls < 5; });
  EXPECT_EQ(calls, 5);
}

TEST(CudaConv, ListingsHaveTheDirectionAndTypesAskedFor) {
  const auto listing =
      Listing::prepare({.arch = "sm_90a", .operation = Operation::conv, .variant = "bwd_data", .data_types = {"fp16"}});
  ASSERT_TRUE(listing.has_value()) << listing.error().text();
  ListStatistics statistics;
  std::string name;
  ASSERT_TRUE(listing->walk(
      [&](const KernelConfig& config) {
        const auto& s = std::get<ConvSignature>(config.signature);
        EXPECT_EQ(s.direction, ConvDirection::backward_data);
        EXPECT_EQ(s.data_type, DataType::fp16);
        name = native_name(config);
        return true;
      },
      statistics));
  EXPECT_GT(statistics.listed, 100u);
  const auto said = explain(name, "");
  ASSERT_TRUE(said.has_value()) << said.error().text();
  EXPECT_TRUE(said->front().is_listed()) << explanation_text(said->front());
  EXPECT_FALSE(Listing::prepare({.arch = "sm_90a", .operation = Operation::conv, .variant = "sideways"}).has_value());
}

TEST(CudaConv, EachRuleRefusesWhatItIsThereFor) {
  using S = ConvSignature;
  using A = Algorithm;
  std::set<std::string> seen;
  const auto expect = [&](const std::string& rule, const KernelConfig& of, const std::function<void(S&, A&)>& change) {
    ASSERT_EQ(refusing(of), "") << native_name(of);
    KernelConfig config = of;
    change(conv_of(config), config.algorithm);
    EXPECT_EQ(refusing(config), rule) << native_name(config);
    const auto verdicts = cuda_conv_verdicts({config, conv_arch("sm_90a")});
    const auto said = std::ranges::find_if(verdicts, [&](const RuleVerdict& each) { return each.rule == rule; });
    ASSERT_NE(said, verdicts.end()) << rule;
    EXPECT_FALSE(said->figures.empty()) << rule;
    seen.insert(rule);
  };
  const KernelConfig gather = listed_conv(Pipeline::mma_sm80), window = listed_conv(Pipeline::warp_specialized),
                     depthwise = listed_conv(Pipeline::depthwise);
  expect("signature_is_carried", gather, [](S& s, A&) { s.data_type = DataType::bf8; });
  expect("signature_is_carried", gather, [](S& s, A&) { s.data_type = DataType::int8; });  // of float sums
  expect("signature_is_carried", gather, [](S& s, A&) { s.type_out = DataType::int8; });
  expect("signature_is_carried", gather, [](S& s, A&) { s.spatial_dims = 4; });
  expect("signature_is_carried", window, [](S& s, A&) { s.two_stage = true; });
  expect("epilogue_is_carried", gather, [](S& s, A&) { s.epilogue_ops = {EpilogueOp::amax}; });
  expect("epilogue_is_carried", listed_conv(Pipeline::mma_sm80, DataType::fp16, ConvDirection::backward_weight),
         [](S& s, A&) { s.epilogue_ops = {EpilogueOp::relu}; });
  expect("chip_offers_pipeline", gather, [](S&, A& a) { a.instruction = Instruction::wgmma; });
  expect("all_sizes_are_run_time", gather, [](S& s, A&) { s.spatial_dims = 2; });
  expect("tile_is_dealt_out", gather, [](S&, A& a) { a.tile[0] = 72; });
  expect("accesses_are_carried", gather, [](S&, A& a) { a.vector[0] = a.vector[1] = 4; });
  expect("fields_belong_to_pipeline", gather, [](S&, A& a) { a.stages = 1; });
  expect("shared_memory_fits", gather, [](S&, A& a) { a.stages = 40; });
  expect("registers_hold_sums", gather, [](S&, A& a) { a.block_per_cu = 8; });
  expect("registers_hold_sums", listed_conv(Pipeline::mma_sm80, DataType::bf16, ConvDirection::backward_data),
         [](S& s, A&) { s.epilogue_ops = {EpilogueOp::add}; });
  const KernelConfig in_parts =
      listed_conv(Pipeline::mma_sm80, DataType::fp8, ConvDirection::forward, [](const Algorithm& a) {
        return a.split_k && a.tile[0] == 128 && a.tile[1] == 128 && a.wave[0] * a.wave[1] == 8 && a.vector[0] > 1;
      });
  expect("registers_hold_sums", in_parts, [](S&, A& a) { a.vector = {1, 1, 1}; });
  expect("window_is_carried", window, [](S& s, A&) { s.depthwise = true; });
  expect("copies_are_whole", window, [](S&, A& a) { a.cluster[1] = 2; });
  const KernelConfig weight = listed_conv(Pipeline::warp_specialized, DataType::bf16, ConvDirection::backward_weight);
  expect("copies_are_whole", weight, [](S&, A& a) { a.tile[1] = 96; });
  expect("copies_are_whole", weight, [](S&, A& a) { a.cluster[0] = 2; });  // without parts
  expect("taps_share_steps", window, [](S&, A& a) { a.tile[3] = 3; });
  expect("taps_share_steps", weight, [](S&, A& a) { a.tile[3] = 2; });  // blocks share tiles, whose slabs are of a tap
  expect("turned_tiles_leave_as_boxes", window, [](S&, A& a) {
    a.transpose_c = true;
    a.vector[2] = 2;
  });
  expect("turned_tiles_leave_as_boxes", weight, [](S&, A& a) { a.transpose_c = true; });
  expect("gradients_leave_as_boxes", window, [](S& s, A&) { s.direction = ConvDirection::backward_weight; });
  expect("gradients_leave_as_boxes", weight, [](S&, A& a) { a.stream_k = false; });
  expect("gradients_leave_as_boxes", weight, [](S&, A& a) { a.vector[2] = 2; });
  expect("elements_leave_registers", window, [](S&, A& a) {
    a.ping_pong = true;
    a.vector[2] = 1;
  });
  expect("elements_leave_registers", listed_conv(Pipeline::warp_specialized, DataType::int8), [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::add};
    a.tile[0] = 256;
    a.tile[1] = 128;
    a.vector[2] = 1;
  });
  expect("elements_leave_registers", window, [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::add};
    a.tile[0] = a.tile[1] = 128;
    a.split_k = true;
    a.vector[2] = 1;
  });
  expect("elements_leave_registers", window, [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::bias, EpilogueOp::add};
    s.type_out = DataType::fp32;
    a.tile[0] = a.tile[1] = 128;
    a.split_k = true;
    a.vector[2] = 4;
  });
  expect("parts_leave_registers", weight, [](S& s, A& a) {
    s.type_out = DataType::fp32;
    a.tile[1] = 256;
    a.vector[2] = 4;
  });
  expect("parts_leave_registers", listed_conv(Pipeline::warp_specialized, DataType::int8), [](S&, A& a) {
    a.tile[0] = a.tile[1] = 128;
    a.split_k = true;
  });
  expect("product_is_carried", window, [](S&, A& a) { a.stages = 30; });
  expect("groups_are_channels", depthwise, [](S& s, A&) { s.spatial_dims = 2; });
  expect("strips_miss_banks", depthwise, [](S&, A& a) { a.subtile[1] = 6; });
  expect("taps_are_unrolled", depthwise, [](S&, A& a) { a.tile[1] = 6; });
  expect("fields_belong_to_pipeline", depthwise, [](S&, A& a) { a.split_k = true; });
  expect("registers_hold_sums", depthwise, [](S&, A& a) { a.block_per_cu = 20; });
  expect("registers_hold_sums", depthwise, [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::relu};
    a.subtile = {7, 7};
    a.tile[1] = 7;
    a.tile[2] = 2;
  });
  const KernelConfig strips = listed_conv(Pipeline::depthwise, DataType::bf16, ConvDirection::forward, is_mapped),
                     strips_of_y =
                         listed_conv(Pipeline::depthwise, DataType::fp16, ConvDirection::backward_weight, is_mapped);
  expect("taps_are_unrolled", strips, [](S&, A& a) { a.tile[1] = 5; });
  expect("strips_share_tiles", strips, [](S&, A& a) { a.tile[0] = 48; });
  expect("strips_share_tiles", strips, [](S&, A& a) { a.subtile[1] = 12; });
  expect("strips_share_tiles", strips_of_y, [](S&, A& a) { a.stages = 7; });
  expect("fields_belong_to_pipeline", strips, [](S&, A& a) { a.cluster[0] = 4; });
  expect("fields_belong_to_pipeline", strips_of_y, [](S&, A& a) { a.cluster[0] = 9; });
  const KernelConfig grouped = listed_conv(Pipeline::grouped);
  expect("groups_are_octets", grouped, [](S&, A& a) { a.tile[0] = 12; });
  expect("groups_are_octets", grouped, [](S& s, A&) { s.spatial_dims = 2; });
  expect("fields_belong_to_pipeline", grouped, [](S& s, A&) { s.direction = ConvDirection::backward_weight; });
  expect("results_are_sixteens", grouped, [](S&, A& a) { a.wave[0] = 6; });
  expect("fields_belong_to_pipeline", grouped, [](S&, A& a) { a.split_k = true; });
  expect("registers_hold_sums", grouped, [](S&, A& a) { a.block_per_cu = 8; });
  const KernelConfig banded = listed_conv(Pipeline::grouped, DataType::bf16, ConvDirection::forward, is_banded),
                     banded_weight =
                         listed_conv(Pipeline::grouped, DataType::fp16, ConvDirection::backward_weight, is_banded);
  expect("groups_are_octets", banded, [](S& s, A&) { s.depthwise = false; });
  expect("groups_are_octets", banded, [](S&, A& a) { a.tile[1] = 4; });
  expect("results_are_sixteens", banded, [](S&, A& a) { a.wave[0] = 16; });
  expect("results_are_sixteens", banded_weight, [](S&, A& a) { a.wave[0] = 4; });
  expect("results_are_sixteens", banded, [](S&, A& a) { a.subtile[1] = 4; });
  expect("bands_leave_results", banded, [](S& s, A&) { s.type_out = DataType::fp32; });
  expect("bands_leave_results", banded, [](S& s, A&) { s.epilogue_ops = {EpilogueOp::add}; });
  expect("fields_belong_to_pipeline", banded, [](S&, A& a) { a.stages = 3; });
  expect("registers_hold_sums", banded_weight, [](S&, A& a) { a.block_per_cu = 4; });
  expect("fields_belong_to_pipeline", banded, [](S&, A& a) { a.cluster[0] = 4; });         // forward
  expect("fields_belong_to_pipeline", banded_weight, [](S&, A& a) { a.cluster[0] = 4; });  // tiles of one image
  const KernelConfig whole = listed_conv(Pipeline::grouped, DataType::bf16, ConvDirection::backward_weight, is_whole);
  expect("fields_belong_to_pipeline", whole, [](S&, A& a) { a.cluster[0] = 9; });
  expect("fields_belong_to_pipeline", whole, [](S&, A& a) { a.cluster[1] = 2; });
  const KernelConfig mapped = listed_conv(Pipeline::grouped, DataType::bf16, ConvDirection::forward, is_mapped),
                     mapped_weight =
                         listed_conv(Pipeline::grouped, DataType::fp16, ConvDirection::backward_weight, is_mapped);
  expect("groups_are_octets", mapped, [](S&, A& a) { a.tile[2] = 5; });
  expect("groups_are_octets", mapped, [](S&, A& a) { a.tile[2] = 2; });  // phases are backward data's
  expect("groups_are_octets", banded, [](S&, A& a) { a.tile[2] = 3; });
  expect("results_are_sixteens", mapped, [](S&, A& a) { a.subtile[0] = 7; });
  expect("results_are_sixteens", mapped, [](S&, A& a) { a.subtile[1] = 4; });
  expect("results_are_sixteens", mapped_weight, [](S&, A& a) { a.subtile[1] = 24; });
  expect("fields_belong_to_pipeline", mapped, [](S&, A& a) { a.stages = 1; });
  expect("fields_belong_to_pipeline", mapped, [](S&, A& a) { a.cluster[0] = 4; });  // forward
  expect("fields_belong_to_pipeline", mapped_weight, [](S&, A& a) { a.cluster[0] = 9; });
  expect("tiles_fit", mapped, [](S&, A& a) { a.stages = 7; });
  expect("tiles_fit", mapped_weight, [](S&, A& a) { a.stages = 7; });
  expect("registers_hold_sums", mapped, [](S&, A& a) {
    a.subtile = {8, 32};
    a.wave[0] = 16;
    a.block_per_cu = 2;
  });
  const KernelConfig halo = listed_conv(Pipeline::halo, DataType::bf16, ConvDirection::backward_weight);
  expect("filters_are_3x3", halo, [](S& s, A&) { s.spatial_dims = 3; });
  expect("filters_are_3x3", halo, [](S&, A& a) { a.tile[1] = 3; });
  expect("boxes_are_sixteens", halo, [](S&, A& a) { a.tile[0] = 7; });
  expect("fields_belong_to_pipeline", halo, [](S&, A& a) { a.block_per_cu = 2; });
  expect("shared_memory_fits", halo, [](S&, A& a) { a.stages = 60; });
  const KernelConfig halo_data = listed_conv(Pipeline::halo);
  expect("filters_are_3x3", halo_data, [](S&, A& a) { a.tile[1] = 2; });
  expect("boxes_are_sixteens", halo_data, [](S&, A& a) { a.tile[0] = 12; });
  expect("results_are_boxes", halo_data, [](S& s, A&) { s.type_out = DataType::fp32; });
  expect("results_are_boxes", halo_data, [](S& s, A&) { s.epilogue_ops = {EpilogueOp::bias, EpilogueOp::add}; });
  expect("fields_belong_to_pipeline", halo_data, [](S&, A& a) { a.stages = 2; });
  const KernelConfig stem = listed_conv(Pipeline::stem),
                     stem_weight = listed_conv(Pipeline::stem, DataType::bf16, ConvDirection::backward_weight);
  expect("images_have_few_channels", stem, [](S& s, A&) { s.direction = ConvDirection::backward_data; });
  expect("images_have_few_channels", stem, [](S& s, A&) { s.spatial_dims = 2; });
  expect("warps_have_sixteens", stem, [](S&, A& a) { a.tile[0] = 72; });
  expect("warps_have_sixteens", stem_weight, [](S&, A& a) { a.tile[2] = 12; });
  expect("tensors_lie_as_pairs", stem, [](S& s, A& a) {
    s.epilogue_ops = {EpilogueOp::add};
    a.vector[2] = 1;
  });
  expect("fields_belong_to_pipeline", stem, [](S&, A& a) { a.stages = 3; });
  expect("fields_belong_to_pipeline", stem_weight, [](S&, A& a) { a.vector[0] = 4; });
  expect("registers_hold_sums", stem, [](S&, A& a) { a.block_per_cu = 8; });
  const KernelConfig direct = listed_conv(Pipeline::direct);
  expect("pixels_are_of_16_bits", direct, [](S& s, A&) { s.spatial_dims = 2; });
  expect("pixels_are_of_16_bits", direct, [](S& s, A&) { s.direction = ConvDirection::backward_weight; });
  expect("warps_have_sixteens_of_results", direct, [](S&, A& a) { a.tile[0] = 72; });
  expect("warps_have_sixteens_of_results", direct, [](S&, A& a) { a.tile[1] = 48; });
  expect("fields_belong_to_pipeline", direct, [](S&, A& a) { a.stages = 5; });
  expect("fields_belong_to_pipeline", direct, [](S&, A& a) { a.vector[0] = a.vector[1] = 2; });
  expect("epilogues_read_vectors", direct, [](S& s, A&) { s.epilogue_ops = {EpilogueOp::add}; });
  expect("registers_hold_sums", direct, [](S&, A& a) { a.block_per_cu = 8; });
  const KernelConfig pointwise = listed_conv(Pipeline::pointwise);
  expect("pixels_are_of_16_bits", pointwise, [](S& s, A&) { s.direction = ConvDirection::backward_weight; });
  expect("warps_have_sixteens_of_pixels", pointwise, [](S&, A& a) { a.tile[0] = 72; });
  expect("warps_have_sixteens_of_pixels", pointwise, [](S&, A& a) { a.tile[1] = 48; });
  expect("fields_belong_to_pipeline", pointwise, [](S&, A& a) { a.vector[0] = 4; });
  expect("fields_belong_to_pipeline", pointwise, [](S&, A& a) { a.stages = 5; });
  expect("epilogues_read_vectors", pointwise, [](S& s, A&) { s.epilogue_ops = {EpilogueOp::add}; });
  expect("registers_hold_pixels", pointwise, [](S&, A& a) { a.block_per_cu = 8; });
  const KernelConfig rowwise = listed_conv(Pipeline::rowwise);
  expect("channels_are_of_16_bits", rowwise, [](S& s, A&) { s.direction = ConvDirection::backward_data; });
  expect("channels_are_of_16_bits", rowwise, [](S& s, A&) { s.type_out = DataType::fp32; });
  expect("fields_belong_to_pipeline", rowwise, [](S&, A& a) { a.wave[0] = 33; });
  expect("fields_belong_to_pipeline", rowwise, [](S&, A& a) { a.tile[0] = 16; });
  for (const KernelConfig& config :
       {gather, window, depthwise, grouped, halo, halo_data, stem, direct, pointwise, rowwise})
    for (const RuleVerdict& verdict : cuda_conv_verdicts({config, conv_arch("sm_90a")}))
      EXPECT_TRUE(seen.contains(std::string(verdict.rule))) << verdict.rule;
  EXPECT_EQ(refusing(window, "sm_80"), "chip_offers_pipeline") << "wgmma is Hopper's";
  KernelConfig small_groups = grouped;
  small_groups.algorithm.tile[0] = 4, small_groups.algorithm.wave[0] = 8;
  small_groups.algorithm.subtile = {4, 32}, small_groups.algorithm.block_per_cu = 2;
  EXPECT_EQ(refusing(small_groups, "sm_89"), "");
  EXPECT_EQ(refusing(small_groups, "sm_80"), "registers_hold_sums");
}

}  // namespace
}  // namespace tilesmith
