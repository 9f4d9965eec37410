// What the rules say of a signature's rows of the tile table, asked once each: choosing meets the same rows with every
// problem of the signature, and asking takes it longer than all that depends on sizes.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

#include "instances/gemm/cuda_rows.hpp"

namespace tilesmith {

/// For one user at a time: what was not asked yet is asked where it is looked up.
class CudaGemmAsked {
 public:
  /// The spec outlives what is said of it.
  CudaGemmAsked(const CudaSpec& spec, const GemmSignature& signature);

  /// A row's kernel with one width of access.
  struct Access {
    Algorithm algorithm;      ///< has its stages once the rules were asked
    CudaGemmResources facts;  ///< the algorithm's
    const CudaGemmRule* refused = nullptr;
    bool is_asked = false;
  };
  /// A row's kernels, with so many blocks of a cluster that share a tile by k.
  struct Shared {
    int blocks;
    Algorithm algorithm;                 ///< without widths of access
    const CudaGemmRule* refused;         ///< whatever the widths of access are
    std::pmr::vector<Access> by_widths;  ///< those that were looked up, the widest first
  };
  struct Row {
    const CudaGemmTile* tile;
    int place;            ///< in the pipeline's table, from 1
    Algorithm algorithm;  ///< as algorithm_of has it
    std::size_t alike;    ///< the first of the pipeline's rows that has the same algorithm
    std::pmr::vector<Shared> by_blocks;
  };
  struct Rows {
    const CudaGemmPipeline* pipeline;
    const CudaGemmRule* refused;  ///< whatever the tile is
    std::vector<CudaGemmWidths> widths;
    std::vector<Row> rows;  ///< see rows_of
  };

  [[nodiscard]] std::vector<Rows>& pipelines() { return pipelines_; }
  /// Those of the pipeline that are meant for the signature.
  [[nodiscard]] std::vector<Row>& rows_of(Rows& rows);
  [[nodiscard]] Shared& of_blocks(const Rows& rows, Row& row, int blocks);
  /// Of the width that is so many places behind the widest. The rules are not asked by this.
  [[nodiscard]] Access& of_width(const Rows& rows, Shared& shared, std::size_t place);
  /// The first rule that refuses the kernel, or null.
  [[nodiscard]] const CudaGemmRule* refusal(const Row& row, const Shared& shared, Access& access);

 private:
  const CudaSpec& spec_;
  KernelConfig config_;  ///< of the signature; its algorithm is what is asked about
  /// Of the rows' kernels: some hundred small lists, which end together.
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;
  std::vector<Rows> pipelines_;
};

}  // namespace tilesmith
