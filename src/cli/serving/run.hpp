// tilesmith run append_kv, tilesmith run merge_states: the operations that have no plan, on random data.
#pragma once

#include <CLI/CLI.hpp>

namespace tilesmith::cli {

/// Adds both to the verb `run`.
void add_serving(CLI::App& run, int& exit_code);

}  // namespace tilesmith::cli
