// The options that say which instances are meant: shared by list, generate and build.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "catalog/listing.hpp"

namespace tilesmith::cli {

struct Selection {
  ListRequest request;
  std::string operation = "attention";
  std::string origin;  ///< empty: the architecture's own default
  std::string mode = "rules";
  std::vector<std::string> head_dims;
  std::optional<std::int64_t> m, n, k, batch;  ///< of a GEMM
  bool unaligned = false;

  void add_to(CLI::App& verb);
  [[nodiscard]] Result<Listing> prepare() const;
  /// The error of a selection that holds no instance. The hint names the options without which it would hold some.
  [[nodiscard]] std::unexpected<Error> holds_nothing() const;
};

/// Where TILESMITH_SPEC_DIR names facts: warns of each tile of the architecture's tables that makes no kernel.
void warn_of_unused_values(std::string_view arch);

}  // namespace tilesmith::cli
