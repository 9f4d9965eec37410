// The stations of the road depend in one direction: a source may include its own station and those above it, never one
// below.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kStations = {"base",    "vocabulary", "problem", "spec",    "instances", "choose",
                                            "catalog", "codegen",    "jit",     "runtime", "dispatch",  "measure",
                                            "verify",  "trial",      "sweep",   "capi",    "cli"};

int rank_of(const std::string& station) {
  for (std::size_t i = 0; i < kStations.size(); ++i)
    if (kStations[i] == station) return static_cast<int>(i);
  return -1;
}

TEST(Architecture, StationsIncludeOnlyStationsAbove) {
  const fs::path root = fs::path(TILESMITH_SOURCE_DIR) / "src";
  const std::regex include("^\\s*#include \"([a-z_]+)/");
  int checked = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    const std::string station = fs::relative(entry.path(), root).begin()->string();
    const int own = rank_of(station);
    ASSERT_GE(own, 0) << "src/" << station << " is no station: add it to the list in its place";
    std::ifstream in(entry.path());
    int line_number = 0;
    for (std::string line; std::getline(in, line);) {
      ++line_number;
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const int other = rank_of(match[1]);
      if (other < 0) continue;  // include/tilesmith, kernels/
      ++checked;
      EXPECT_LE(other, own) << entry.path().string() << ":" << line_number << ": " << station << " may not use "
                            << match[1];
    }
  }
  EXPECT_GT(checked, 50) << "the check saw almost no includes";
}

TEST(Architecture, PublicHeadersIncludeNothingPrivate) {
  const fs::path root = fs::path(TILESMITH_SOURCE_DIR) / "include" / "tilesmith";
  const std::regex include("^\\s*#include \"([^\"]+)\"");
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      EXPECT_TRUE(match[1].str().starts_with("tilesmith/")) << entry.path().string() << ": " << line;
    }
  }
}

}  // namespace
