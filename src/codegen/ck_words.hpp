// The words of specs/amd/ck/sources.json: what is written for each from an instance.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "spec/amd/chip.hpp"
#include "vocabulary/config.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {

/// Traits that an instance may need and a version of Composable Kernel may lack, as bits.
using CkTraits = std::uint32_t;

struct CkWord {
  std::string_view name;
  void (*write)(std::string& out, const KernelConfig& config, const AmdChip& chip);
  CkTraits expresses = 0;
};

/// What an operation brings.
struct CkOperation {
  std::span<const CkWord> words;
  std::string_view header;           ///< of the folder tilesmith_ck, for the units
  std::string_view dispatch_header;  ///< for those who choose an instance
  std::string_view arguments;        ///< the structure that a launch takes
  std::string_view record;           ///< the structure that says which calls an instance serves
  std::string_view instance;         ///< the structure that the registry holds
  /// Where the unit's data has no call: the function enqueue of a family, with BOUNDS in place of make_kernel's own
  /// arguments, and the blocks for each compute unit that these ask for.
  std::string (*launch)(std::string_view family);
  int (*min_blocks)(Pipeline pipeline);
  /// The expression, of the arguments a, for the bytes of workspace that an instance of a family needs; empty: none.
  std::string (*workspace)(std::string_view family);
  std::string_view (*family)(const KernelConfig& config);
  CkTraits (*needs)(const KernelConfig& config);
  std::string_view (*trait_name)(CkTraits one_bit);
  void (*write_types)(std::string& out, const KernelConfig& config);   ///< using Types = ...;
  void (*write_record)(std::string& out, const KernelConfig& config);  ///< r.field = value; for what is no default
  Status (*accepts)(const KernelConfig& config, const AmdChip& chip);  ///< the rules
};

[[nodiscard]] const CkOperation& ck_attention_operation();
[[nodiscard]] const CkOperation& ck_gemm_operation();
[[nodiscard]] const CkOperation& ck_conv_operation();

/// ck_tile::sequence<1, 2, 3>
void append_sequence(std::string& out, std::span<const std::uint16_t> figures);

// Words that GEMM and convolution share, for their tables of CkWord.

/// Three figures as a sequence: tile, waves or warp.
template <std::array<std::uint16_t, 9> Algorithm::*kFigures>
void ck_triple(std::string& out, const KernelConfig& c, const AmdChip&) {
  append_sequence(out, std::span(c.algorithm.*kFigures).first(3));
}
/// One of them.
template <std::array<std::uint16_t, 9> Algorithm::*kFigures, std::size_t kPlace>
void ck_figure(std::string& out, const KernelConfig& c, const AmdChip&) {
  append_integer(out, (c.algorithm.*kFigures)[kPlace]);
}

}  // namespace tilesmith
