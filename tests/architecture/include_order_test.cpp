// The stations of the road depend in one direction: a source may include its own station and those above it, never one
// below.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kStations = {
    "base",     "vocabulary", "problem", "spec",  "instances", "choose", "catalog", "codegen", "jit", "runtime",
    "dispatch", "measure",    "verify",  "trial", "sweep",     "tune",   "capi",    "drop_in", "cli"};

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

/// The device that a file is of: a folder, or the file's stem up to its first "_", is a device's name. `amd` holds
/// facts for Composable Kernel's lists.
std::string device_of(const fs::path& path) {
  static const std::regex device("(cpu|cuda|hip|ck|amd)(_.*)?");
  for (const fs::path& part : path) {
    std::smatch match;
    const std::string stem = part.stem().string();
    if (std::regex_match(stem, match, device)) return match[1] == "amd" ? "ck" : match[1].str();
  }
  return "";
}

/// Where devices meet, by the files' names: whatever else knows two devices should be two files.
const std::set<std::string> kJoiningFiles = {"capi/devices.cpp",
                                             "catalog/candidates.cpp",
                                             "catalog/candidates.hpp",
                                             "catalog/explain.cpp",
                                             "catalog/explain_backend.hpp",
                                             "catalog/listing_native_attention.cpp",
                                             "catalog/listing_native_conv.cpp",
                                             "catalog/listing_native_gemm.cpp",
                                             "catalog/listing_plan.hpp",
                                             "catalog/unused_values.cpp",
                                             "catalog/unused_values.hpp",
                                             "cli/arch.cpp",
                                             "codegen/generate.cpp",
                                             "codegen/generate.hpp",
                                             "dispatch/backend.cpp",
                                             "dispatch/kernel_builder.hpp",
                                             "choose/device_class.hpp",
                                             "measure/peaks.hpp",
                                             "spec/architectures.cpp",
                                             "sweep/planning_backend.cpp",
                                             "sweep/provenance.cpp",
                                             "trial/device.cpp"};

TEST(Architecture, AFileOfOneDeviceIncludesNoOther) {
  const fs::path root = fs::path(TILESMITH_SOURCE_DIR) / "src";
  const std::regex include("^\\s*#include \"([^\"]+)\"");
  int checked = 0;
  std::set<std::string> joining;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    const fs::path path = fs::relative(entry.path(), root);
    const std::string own = device_of(path);
    std::set<std::string> others;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string other = device_of(fs::path(match[1].str()));
      if (other.empty()) continue;
      others.insert(other);
      if (own.empty()) continue;
      ++checked;
      EXPECT_EQ(own, other) << path.string() << " is of " << own << ": " << line;
    }
    if (own.empty() && others.size() > 1) {
      joining.insert(path.string());
      EXPECT_TRUE(kJoiningFiles.contains(path.string()))
          << path.string() << " joins devices: move each device's part to a file of its own, or add it to the list";
    }
  }
  EXPECT_GT(checked, 50) << "the check saw almost no includes";
  for (const std::string& file : kJoiningFiles)
    EXPECT_TRUE(joining.contains(file)) << file << " joins no devices any more";
}

// A device that is "not the CPU" would be taken for CUDA when there is a third kind: a switch without default asks.
TEST(Architecture, NoKindOfDeviceIsGuessed) {
  const fs::path root = fs::path(TILESMITH_SOURCE_DIR) / "src";
  const std::regex guess("!= *DeviceKind::|== *DeviceKind::[a-z]+ *\\?|DeviceKind::[a-z]+ *!=");
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      EXPECT_FALSE(std::regex_search(line, guess)) << entry.path().string() << ": " << line;
  }
}

/// What a machine with nothing but Debian has to install.
TEST(Architecture, ForeignHeadersComeFromPackagesThatSetupInstalls) {
  const std::map<std::string, std::string> packages = {
      {"fmt", "libfmt-dev"},     {"nlohmann", "nlohmann-json3-dev"}, {"yaml-cpp", "libyaml-cpp-dev"},
      {"CLI", "libcli11-dev"},   {"sqlite3.h", "libsqlite3-dev"},    {"openssl", "libssl-dev"},
      {"gtest", "libgtest-dev"}, {"benchmark", "libbenchmark-dev"},  {"sys", ""},
      {"tilesmith", ""}};
  const fs::path root(TILESMITH_SOURCE_DIR);
  std::ifstream script(root / "tools" / "setup.sh");
  const std::string setup(std::istreambuf_iterator<char>(script), {});
  const std::regex include("^\\s*#include <([a-zA-Z0-9_-]+)/[^>]+>|^\\s*#include <(sqlite3\\.h)>");
  int checked = 0;
  for (const char* folder : {"src", "include", "tests", "examples"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      if (entry.path().string().find("ck_mock") != std::string::npos) continue;  // sources that are made up
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        ++checked;
        const auto package = packages.find(match[1].matched ? match[1] : match[2]);
        ASSERT_NE(package, packages.end()) << entry.path().string() << ": " << line;
        EXPECT_NE(setup.find(package->second), std::string::npos) << package->second << " is not in tools/setup.sh";
      }
    }
  EXPECT_GT(checked, 300) << "the check saw almost no includes";
}

}  // namespace
