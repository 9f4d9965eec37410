#include "spec/amd/ck_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/lasting.hpp"
#include "spec/amd/ck_reading.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

Result<TileLimits> read_limits(const JsonReader& from) {
  TS_TRY(from.only({"min", "step"}));
  TileLimits limits;
  TS_ASSIGN(limits.min, read_shape<3>(from.at("min")));
  TS_ASSIGN(limits.step, read_shape<3>(from.at("step")));
  if (std::ranges::find(limits.step, 0) != limits.step.end()) return from.at("step").refuse("figures above 0");
  return limits;
}

Status read_sweep(const JsonReader& from, AmdGemmSpec::Sweep& sweep) {
  TS_TRY(from.only({"tile_m", "tile_n", "tile_k", "waves_m", "waves_n", "waves_k", "frag_m", "frag_n", "frag_k"}));
  const std::string_view letters[] = {"m", "n", "k"};
  for (std::size_t i = 0; i < 3; ++i) {
    TS_ASSIGN(sweep.tile[i], from.at(fmt::format("tile_{}", letters[i])).integers(1, 4096));
    TS_ASSIGN(sweep.waves[i], from.at(fmt::format("waves_{}", letters[i])).integers(1, 64));
    TS_ASSIGN(sweep.fragment[i], from.at(fmt::format("frag_{}", letters[i])).integers(1, 1024));
  }
  return {};
}

Status read_family(const JsonReader& from, AmdGemmSpec::Family& family) {
  TS_TRY(from.only(
      {"data_types", "layouts", "pipelines", "epilogues", "schedulers", "elementwise", "num_d", "reductions"}));
  TS_ASSIGN(family.data_types, read_enums<DataType>(from.at("data_types")));
  TS_ASSIGN(family.layouts, from.at("layouts").strings());
  TS_ASSIGN(family.pipelines, read_enums<Pipeline>(from.at("pipelines")));
  TS_ASSIGN(family.epilogues, read_enums<Epilogue>(from.at("epilogues")));
  TS_ASSIGN(family.schedulers, read_enums<Scheduler>(from.at("schedulers")));
  if (from.has("elementwise")) {
    TS_ASSIGN(family.elementwise, read_enums<ElementwiseKind>(from.at("elementwise")));
  }
  if (from.has("num_d")) {
    TS_ASSIGN(family.num_d, from.at("num_d").integers(1, 16));
  }
  if (from.has("reductions")) {
    TS_ASSIGN(family.reductions, read_enums<StreamKReduction>(from.at("reductions")));
  }
  return {};
}

Result<AmdGemmSpec::PreselectedKernel> read_preselected(const JsonReader& from) {
  TS_TRY(from.only({"family", "tile", "wave", "warp", "pipeline", "epilogue", "scheduler", "pad", "persistent",
                    "elementwise", "num_d"}));
  AmdGemmSpec::PreselectedKernel kernel;
  TS_ASSIGN(kernel.tile, read_shape<3>(from.at("tile")));
  TS_ASSIGN(kernel.wave, read_shape<3>(from.at("wave")));
  TS_ASSIGN(kernel.warp, read_shape<3>(from.at("warp")));
  TS_ASSIGN(kernel.pipeline, from.at("pipeline").enumerator<Pipeline>());
  TS_ASSIGN(kernel.epilogue, from.at("epilogue").enumerator<Epilogue>());
  TS_ASSIGN(kernel.scheduler, from.at("scheduler").enumerator<Scheduler>());
  TS_ASSIGN(kernel.pad, from.at("pad").boolean());
  if (from.has("persistent")) {
    TS_ASSIGN(kernel.persistent, from.at("persistent").boolean());
  }
  if (from.has("family")) {
    TS_ASSIGN(kernel.family, from.at("family").enumerator<GemmFamily>());
  }
  if (from.has("elementwise")) {
    TS_ASSIGN(kernel.elementwise, from.at("elementwise").enumerator<ElementwiseKind>());
    TS_ASSIGN(kernel.num_d, from.at("num_d").integer<int>(1, 16));
  }
  return kernel;
}

Status read_sets(const JsonReader& from, AmdGemmSpec& spec) {
  TS_ASSIGN(const auto sets, from.members());
  for (const auto& [name, item] : sets) {
    TS_TRY(item.only({"data_type", "output", "kernels"}));
    auto& set = spec.preselected.emplace_back();
    set.name = name;
    TS_ASSIGN(set.data_type, item.at("data_type").enumerator<DataType>());
    set.output = gemm_output_type(set.data_type);
    if (item.has("output")) {
      TS_ASSIGN(set.output, item.at("output").enumerator<DataType>());
    }
    TS_ASSIGN(const auto kernels, item.at("kernels").elements());
    for (const JsonReader& kernel : kernels) {
      TS_ASSIGN(const auto read, read_preselected(kernel));
      set.kernels.push_back(read);
    }
  }
  return {};
}

}  // namespace

bool TileLimits::allow(const std::array<std::uint16_t, 9>& tile) const {
  for (std::size_t i = 0; i < 3; ++i)
    if (tile[i] < min[i] || tile[i] % step[i] != 0) return false;
  return true;
}

const TileLimits& AmdGemmSpec::limits_of(GemmFamily family) const {
  return family == GemmFamily::preshuffle ? preshuffle_limits : gemm_limits;
}

long AmdGemmSpec::lds_budget(const AmdChip& chip, Pipeline pipeline) const {
  for (const auto& [listed, share] : lds_share)
    if (listed == pipeline) return static_cast<long>(static_cast<double>(chip.lds_bytes) * share);
  return chip.lds_bytes;
}

Result<AmdGemmSpec> parse_amd_gemm_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"about", "lds_share", "intrawave_only", "tile_limits", "sweep", "families", "preselected"}));
  AmdGemmSpec spec;
  TS_ASSIGN(const auto shares, root.at("lds_share").members());
  for (const auto& [name, value] : shares) {
    auto pipeline = parse_enum<Pipeline>(name);
    if (!pipeline) return std::unexpected(pipeline.error().in(value.place()));
    TS_ASSIGN(const double share, value.number());
    if (!(share > 0 && share <= 1)) return value.refuse("a share above 0, at most 1");
    spec.lds_share.emplace_back(*pipeline, share);
  }
  TS_ASSIGN(spec.intrawave_only, read_enums<Pipeline>(root.at("intrawave_only")));
  const JsonReader limits = root.at("tile_limits");
  TS_TRY(limits.only({"gemm", "preshuffle", "fwd", "bwd_data", "bwd_weight"}));
  TS_ASSIGN(spec.gemm_limits, read_limits(limits.at("gemm")));
  TS_ASSIGN(spec.preshuffle_limits, read_limits(limits.at("preshuffle")));
  for (const auto& entry : EnumTable<ConvDirection>::kNames) {
    TS_ASSIGN(spec.conv_limits[static_cast<std::size_t>(entry.value)], read_limits(limits.at(entry.name)));
  }
  TS_TRY(read_sweep(root.at("sweep"), spec.sweep));
  TS_ASSIGN(const auto families, root.at("families").members());
  for (const auto& [name, item] : families) {
    auto family = parse_enum<GemmFamily>(name);
    if (!family) return std::unexpected(family.error().in(item.place()));
    TS_TRY(read_family(item, spec.families[static_cast<std::size_t>(*family)]));
  }
  TS_TRY(read_sets(root.at("preselected"), spec));
  return spec;
}

const Result<AmdGemmSpec>& amd_gemm_spec() {
  static const Result<AmdGemmSpec>& spec = lasting([]() -> Result<AmdGemmSpec> {
    constexpr std::string_view kFile = "amd/ck/gemm.json";
    TS_ASSIGN(const std::string text, spec_file_text(kFile));
    return parse_amd_gemm_spec(kFile, text);
  }());
  return spec;
}

}  // namespace tilesmith
