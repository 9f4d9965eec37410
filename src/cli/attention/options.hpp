// The options that describe an attention problem on the command line, and the case they make.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trial/attention/case.hpp"

namespace tilesmith::cli {

struct AttentionOptions {
  std::optional<std::int64_t> batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim_qk, head_dim_v;
  std::string dtype = "bf16";
  std::string layout = "bhsd";
  std::string mode;  ///< empty: group when offsets are given
  std::string mask = "none";
  std::vector<std::int64_t> window;
  std::optional<float> scale;
  float softcap = 0;
  float dropout = 0;
  std::uint64_t seed = 0;
  bool random_bias = false, random_alibi = false, random_sink = false, with_lse = false;
  std::string q, k, v, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k;
  std::string out, lse;

  void add_to(CLI::App& verb);
};

/// Reads the files, takes sizes that are not given from their shapes, and checks that all of it fits together.
[[nodiscard]] Result<AttentionCase> make_case(const AttentionOptions& options);

}  // namespace tilesmith::cli
