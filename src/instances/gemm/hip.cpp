#include "instances/gemm/hip.hpp"

#include "instances/gemm/listed_signatures.hpp"

namespace tilesmith {

Algorithm hip_gemm_algorithm(const HipSpec& spec, const GemmSignature& signature, const HipGemmTile& tile) {
  Algorithm algorithm{.pipeline = Pipeline::lds, .instruction = spec.matrix_unit};
  const auto size = [](int value) { return static_cast<std::uint16_t>(value); };
  algorithm.tile = {size(tile.tile_m), size(tile.tile_n), size(tile.tile_k)};
  algorithm.wave = {size(tile.waves_m), size(tile.waves_n)};
  if (const HipFragment* fragment = spec.fragment(signature.a, tile.fragment); fragment != nullptr)
    algorithm.warp = {size(fragment->side), size(fragment->side), size(fragment->k)};
  algorithm.stages = static_cast<std::uint8_t>(tile.stages);
  algorithm.block_per_cu = static_cast<std::int16_t>(tile.blocks_per_cu);
  if (const auto widths = hip_gemm_widths(signature); !widths.empty()) algorithm.vector = widths.front();
  return algorithm;
}

std::vector<HipGemmWidths> hip_gemm_widths(const GemmSignature& signature) {
  const int bytes = bits_of(signature.a) / 8;
  if (bytes == 0) return {};
  const auto wide = static_cast<std::uint8_t>(16 / bytes);
  return {{wide, wide, kHipGemmRun}, {wide, wide, 1}, {1, 1, 1}};
}

void enumerate_hip_gemm(const HipSpec& spec, const GemmSignature& signature, ConfigSink sink) {
  const HipGemmTable* table = spec.gemm_table(signature.a);
  if (table == nullptr) return;
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const HipGemmTile& tile : table->tiles) {
    config.algorithm = hip_gemm_algorithm(spec, signature, tile);
    for (const HipGemmWidths& widths : hip_gemm_widths(signature)) {
      config.algorithm.vector = widths;
      if (first_refusal(hip_gemm_rules(), HipGemmSubject{config, spec}) != nullptr) continue;
      if (!sink(config)) return;
    }
  }
}

void listed_gemm_signatures(const HipSpec& spec, std::string_view layout, GemmSignatureSink sink) {
  std::vector<DataType> types;
  for (const HipGemmTable& table : spec.gemm_tables)
    types.insert(types.end(), table.data_types.begin(), table.data_types.end());
  listed_gemm_signatures(types, spec.gemm_epilogues, layout, sink);
}

}  // namespace tilesmith
