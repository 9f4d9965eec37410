// The options that say which instances are meant: shared by list, generate and build.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "enumerate/listing.hpp"

namespace tilesmith::cli {

struct Selection {
  ListRequest request;
  std::string operation = "attention";
  std::string mode = "rules";
  std::vector<std::string> head_dims;

  void add_to(CLI::App& verb);
  [[nodiscard]] Result<Listing> prepare() const;
};

}  // namespace tilesmith::cli
