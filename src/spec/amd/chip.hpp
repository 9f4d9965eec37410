// Facts about one AMD chip (specs/amd/chips/*.json): its matrix unit, local memory and wave layouts, and what
// Composable Kernel builds for it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/arch_name.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// M, N, K of a tile, a wave layout or a matrix fragment.
using Shape3 = std::array<std::uint16_t, 3>;

/// Which of the two instruction-set lineages a chip belongs to: they differ in wave size, matrix unit and scheduling.
enum class AmdIsa : std::uint8_t { cdna, rdna };
template <>
struct EnumTable<AmdIsa> {
  static constexpr std::string_view kWhat = "AMD instruction-set lineage";
  static constexpr auto kNames = enum_names<AmdIsa>({{AmdIsa::cdna, "cdna"}, {AmdIsa::rdna, "rdna"}});
};

/// How the chip's instructions read fp8: with or without negative zero and infinities.
enum class Fp8Encoding : std::uint8_t { none, fnuz, ocp };
template <>
struct EnumTable<Fp8Encoding> {
  static constexpr std::string_view kWhat = "fp8 encoding";
  static constexpr auto kNames =
      enum_names<Fp8Encoding>({{Fp8Encoding::none, "none"}, {Fp8Encoding::fnuz, "fnuz"}, {Fp8Encoding::ocp, "ocp"}});
};

/// The matrix fragments a chip multiplies for one pair of input types.
struct AmdFragments {
  DataType a = DataType::fp16;
  DataType b = DataType::fp16;
  DataType accumulator = DataType::fp32;
  std::vector<Shape3> shapes;
};

/// Most waves along M times N that a pipeline may use on a chip.
struct AmdWaveLimit {
  Pipeline pipeline = Pipeline::mem;
  Scheduler scheduler = Scheduler::automatic;
  int waves = 0;
};

struct AmdChip {
  struct Attention {
    std::vector<DataType> data_types;
    std::vector<Pipeline> pipelines;
    bool transposed_load = false;  ///< loads that transpose on their way to the registers
    bool v3 = false;               ///< the pipeline with eight waves in two groups
    int async_load_bytes = 0;      ///< bytes a lane brings to local memory with one asynchronous load
    int lds_banks = 0;
  };

  ArchName arch;
  std::string about;
  AmdIsa isa = AmdIsa::cdna;
  Instruction matrix_unit = Instruction::mfma;
  int lanes_per_wave = 64;
  long lds_bytes = 0;
  Fp8Encoding fp8_encoding = Fp8Encoding::none;
  std::vector<Shape3> waves_per_block;
  std::vector<AmdFragments> fragments;
  std::vector<AmdFragments> preshuffle_fragments;  ///< of GEMMs whose B is re-ordered beforehand
  bool tables_are_hard = false;  ///< the wave and fragment tables bind every kernel, known data types or not
  std::vector<AmdWaveLimit> wave_limits;
  std::optional<Attention> attention;

  /// Null when the chip has no table for the pair.
  [[nodiscard]] const AmdFragments* fragments_of(DataType a, DataType b, DataType accumulator,
                                                 bool preshuffle = false) const;
};

/// All chips, by name.
[[nodiscard]] Result<std::vector<AmdChip>> load_amd_chips();

[[nodiscard]] Result<AmdChip> parse_amd_chip(std::string_view file, std::string_view text);

/// Chips of the specs in use, loaded once; the error of the first load is kept.
[[nodiscard]] const Result<std::vector<AmdChip>>& amd_chips();

/// The chip; an unknown name gets the nearest known ones.
[[nodiscard]] Result<const AmdChip*> find_amd_chip(std::string_view arch);

}  // namespace tilesmith
