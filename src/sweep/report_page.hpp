// Results as a page for people: one HTML file that needs no network.
#pragma once

#include <span>
#include <string>

#include "sweep/results.hpp"

namespace tilesmith {

/// Tables that sort and filter, and plots: rooflines, regret of the first choice, and of several files the speed beside
/// the first.
[[nodiscard]] std::string report_page(std::span<const ResultFile> files);

}  // namespace tilesmith
