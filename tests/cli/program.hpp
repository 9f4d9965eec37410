// The built program, run as its users run it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/host_array.hpp"
#include "base/subprocess.hpp"

namespace tilesmith::testing {

/// Runs the program with these arguments, split at blanks; `more` are passed as they are.
[[nodiscard]] ProcessOutcome run(const std::string& words, const std::vector<std::string>& more = {},
                                 const std::stop_token& stop = {});
/// The same through a shell line that says "$0" "$@" where the program goes.
[[nodiscard]] ProcessOutcome run_by(const std::string& shell, const std::string& words);

/// Standard output as the one JSON document it must be.
[[nodiscard]] nlohmann::json document(const ProcessOutcome& outcome);

/// A random float32 array, written as a .npy file when `path` is given.
[[nodiscard]] HostArray random_array(std::vector<std::int64_t> shape, std::uint64_t seed,
                                     const std::filesystem::path& path = {});

}  // namespace tilesmith::testing
