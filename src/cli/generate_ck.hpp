// The folder that `tilesmith generate` writes for Composable Kernel's instances.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/selection.hpp"
#include "spec/amd/chip.hpp"

namespace tilesmith::cli {

struct CkFolder {
  std::string out;
  std::string version;             ///< of Composable Kernel; empty: the default
  std::vector<std::string> names;  ///< these instances instead of the selection
  std::size_t max = 0;             ///< most instances
  std::size_t sample = 0;          ///< only so many of those that have a source, spread over the list; 0: all
};

/// The instance of a name on a chip, with what the name leaves out. Error: parse.
[[nodiscard]] Result<KernelConfig> named_ck_instance(const std::string& name, const AmdChip& chip);

/// Writes a source for each instance, what they include, dispatch.h and dispatch.cpp that register them, and a
/// build.ninja. What is in the folder with the same content is left alone. Instances that have no source are counted by
/// reason; a named one is an error.
[[nodiscard]] Status generate_ck_folder(const Selection& selection, const CkFolder& folder);

}  // namespace tilesmith::cli
