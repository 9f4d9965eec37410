// Enumeration of AMD GEMM instances: a sweep over tiles, wave layouts and fragments under Composable Kernel's validity
// checks, times the traits of each family; and its preselected sets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "instances/mode.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/amd/chip.hpp"
#include "spec/amd/ck_gemm.hpp"

namespace tilesmith {

struct AmdGemmQuery {
  const AmdChip& chip;
  const AmdGemmSpec& spec;
  EnumerationMode mode = EnumerationMode::rules;
  std::string layout = "rcr";  ///< of A, B, C
  /// Empty: those the chip has fragments for. A type that is named is swept even where the chip lists none: upstream
  /// only warns.
  std::vector<DataType> data_types{};
  std::string preselected{};  ///< one set instead of the sweep
};

struct AmdGemmSubject {
  const KernelConfig& config;
  const AmdChip& chip;
  const AmdGemmSpec& spec;

  [[nodiscard]] const GemmSignature& signature() const { return std::get<GemmSignature>(config.signature); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  [[nodiscard]] const AmdFragments* fragments() const {
    return chip.fragments_of(signature().a, signature().b, signature().accumulator,
                             signature().family == GemmFamily::preshuffle);
  }
};

using AmdGemmRules = std::span<const Rule<AmdGemmSubject>>;

/// The instances of one family. Mode tables lists the preselected sets, in which upstream checks nothing.
void enumerate_amd_gemm(const AmdGemmQuery& query, GemmFamily family, ConfigSink sink);

/// Upstream's validity checks.
[[nodiscard]] AmdGemmRules amd_gemm_rules();
/// The first of them, which look at tile, waves and fragment alone, and the others.
[[nodiscard]] AmdGemmRules amd_gemm_tile_rules();
[[nodiscard]] AmdGemmRules amd_gemm_trait_rules();
/// Whether the sweep reaches an instance at all.
[[nodiscard]] AmdGemmRules amd_gemm_sweep_rules();
/// What those checks miss: the silicon, and what is known to fail.
[[nodiscard]] AmdGemmRules amd_gemm_sound_rules();

}  // namespace tilesmith
