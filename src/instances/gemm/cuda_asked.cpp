#include "instances/gemm/cuda_asked.hpp"

#include <algorithm>
#include <utility>

namespace tilesmith {
namespace {

constexpr std::size_t kFirstBytes = 64 << 10;  // more than most signatures' rows take

/// Says of each row which is the first of its algorithm. A tile may be the first choice for several sizes and stand for
/// others too; otherwise the table has it once.
void find_alike(std::vector<CudaGemmAsked::Row>& rows) {
  for (std::size_t first = 0; first < rows.size(); ++first) {
    if (!rows[first].tile->first_for) continue;
    const Algorithm& a = rows[first].algorithm;
    const auto is_alike = [&](const Algorithm& other) { return other.tile[1] == a.tile[1] && other == a; };
    for (std::size_t other = 0; other < rows.size(); ++other)
      if (is_alike(rows[other].algorithm))
        rows[first].alike = rows[other].alike = std::min(rows[first].alike, rows[other].alike);
  }
}

}  // namespace

CudaGemmAsked::CudaGemmAsked(const CudaSpec& spec, const GemmSignature& signature)
    : spec_(spec),
      config_{.arch = spec.arch, .signature = signature, .algorithm = {}},
      memory_(std::make_unique<std::pmr::monotonic_buffer_resource>(kFirstBytes)) {
  pipelines_.reserve(spec.gemm.pipelines.size());
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) {
    const CudaGemmRule* refused = refusal_of_pipeline(config_, pipeline, spec);
    pipelines_.push_back({&pipeline, refused, cuda_gemm_widths(signature, pipeline.pipeline), {}});
  }
}

std::vector<CudaGemmAsked::Row>& CudaGemmAsked::rows_of(Rows& rows) {
  if (!rows.rows.empty()) return rows.rows;
  const auto& signature = std::get<GemmSignature>(config_.signature);
  rows.rows.reserve(rows.pipeline->tiles.size());
  int place = 0;
  for (const CudaGemmTile& tile : rows.pipeline->tiles) {
    ++place;
    if (!is_meant_for(signature, *rows.pipeline, tile)) continue;
    rows.rows.push_back({.tile = &tile,
                         .place = place,
                         .algorithm = algorithm_of(signature, *rows.pipeline, tile),
                         .alike = rows.rows.size(),
                         .by_blocks = std::pmr::vector<Shared>(memory_.get())});
  }
  find_alike(rows.rows);
  return rows.rows;
}

CudaGemmAsked::Shared& CudaGemmAsked::of_blocks(const Rows& rows, Row& row, int blocks) {
  const auto known = std::ranges::find(row.by_blocks, blocks, &Shared::blocks);
  if (known != row.by_blocks.end()) return *known;
  Algorithm& a = config_.algorithm;
  a = row.algorithm;
  a.cluster_k = static_cast<std::uint8_t>(blocks);
  const CudaGemmRule* refused = rows.refused;
  std::pmr::vector<Access> by_widths(memory_.get());
  if (refused == nullptr) {
    if (a.stages == 0) a.stages = kFewestStages;
    a.vector = rows.widths.front();
    const CudaGemmResources facts = cuda_gemm_resources(config_);
    refused = refusal_of_tile(config_, spec_, facts);
    by_widths.emplace_back(a, facts);
    a.vector = {};
  }
  return row.by_blocks.emplace_back(blocks, a, refused, std::move(by_widths));
}

CudaGemmAsked::Access& CudaGemmAsked::of_width(const Rows& rows, Shared& shared, std::size_t place) {
  while (shared.by_widths.size() <= place) {
    config_.algorithm = shared.algorithm;
    config_.algorithm.vector = rows.widths[shared.by_widths.size()];
    shared.by_widths.emplace_back(config_.algorithm, cuda_gemm_resources(config_));
  }
  return shared.by_widths[place];
}

const CudaGemmRule* CudaGemmAsked::refusal(const Row& row, const Shared& shared, Access& access) {
  if (shared.refused != nullptr) return shared.refused;
  if (std::exchange(access.is_asked, true)) return access.refused;
  config_.algorithm = access.algorithm;
  access.refused = refusal_of_access(config_, *row.tile, spec_, access.facts);
  access.algorithm = config_.algorithm;
  return access.refused;
}

}  // namespace tilesmith
