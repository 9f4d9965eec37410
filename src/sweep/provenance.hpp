// Where results come from: what a file of results says before its rows.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tilesmith/device.hpp"

namespace tilesmith {

/// The version of the form of results (docs/bench.md). Raised when a field or column changes its meaning or
/// goes; a new one does not raise it.
inline constexpr int kResultsSchema = 1;

/// An object: schema, tool, version, commit, date (UTC), host, cpu, device, threads, compiler, and on a CUDA device gpu
/// and driver. What is not known is null. A CUDA driver is asked in a child within `limit`, because the process that
/// forks workers must not wake it.
[[nodiscard]] nlohmann::json provenance(Device device, int threads, std::chrono::milliseconds limit);

/// The same as lines of text, "# commit: 8b73da9c40fa", for the head of a CSV file; without what is null.
[[nodiscard]] std::string about_lines(const nlohmann::json& provenance);

}  // namespace tilesmith
