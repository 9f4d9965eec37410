// Enumeration of AMD grouped-convolution instances: the tiles of each direction with their curated waves, fragments,
// vectors and pipelines, plus features, plus depthwise kernels; and the smaller rule sets chosen from that.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/amd/chip.hpp"
#include "spec/amd/ck_conv.hpp"
#include "spec/amd/ck_gemm.hpp"

namespace tilesmith {

enum class ConvRuleSet : std::uint8_t {
  full,        ///< everything the rule tables hold
  full_tests,  ///< every fifth kernel of each feature and data type, and one of each pipeline
  tiny,        ///< the first kernel of each feature and data type, at least ten
  defaults,    ///< ten tiles made by hand, after the chip's own checks
};
template <>
struct EnumTable<ConvRuleSet> {
  static constexpr std::string_view kWhat = "convolution rule set";
  static constexpr auto kNames = enum_names<ConvRuleSet>({{ConvRuleSet::full, "full"},
                                                          {ConvRuleSet::full_tests, "full-tests"},
                                                          {ConvRuleSet::tiny, "tiny"},
                                                          {ConvRuleSet::defaults, "default"}});
};

struct AmdConvQuery {
  const AmdChip& chip;
  const AmdConvSpec& spec;
  const AmdGemmSpec& gemm;  ///< shares of local memory and tile limits are those of its GEMM
  ConvRuleSet rule_set = ConvRuleSet::full;
  std::vector<ConvDirection> directions{ConvDirection::forward, ConvDirection::backward_data,
                                        ConvDirection::backward_weight};
  std::vector<int> spatial_dims{};     ///< empty: 2 and 3 (tiny: 2, as upstream's command line does)
  std::vector<DataType> data_types{};  ///< empty: all
};

struct AmdConvSubject {
  const KernelConfig& config;
  const AmdChip& chip;
  const AmdConvSpec& spec;
  const AmdGemmSpec& gemm;

  [[nodiscard]] const ConvSignature& signature() const { return std::get<ConvSignature>(config.signature); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
};

void enumerate_amd_conv(const AmdConvQuery& query, ConfigSink sink);

/// What the rule tables ask of each kernel they make.
[[nodiscard]] std::span<const Rule<AmdConvSubject>> amd_conv_rules();
/// What the generator's check of the chip asks besides: tables of waves and fragments, local memory.
[[nodiscard]] std::span<const Rule<AmdConvSubject>> amd_conv_chip_rules();
/// chip rules, depthwise limits, and kernels known to compute wrong results.
[[nodiscard]] std::span<const Rule<AmdConvSubject>> amd_conv_sound_rules();

}  // namespace tilesmith
