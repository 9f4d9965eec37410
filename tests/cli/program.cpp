#include "cli/program.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/random.hpp"

namespace tilesmith::testing {
namespace {

ProcessOutcome run_command(std::vector<std::string> arguments, const std::string& words,
                           const std::vector<std::string>& more, const std::stop_token& stop) {
  std::istringstream in(words);
  for (std::string word; in >> word;) arguments.push_back(word);
  arguments.insert(arguments.end(), more.begin(), more.end());
  Command command{.arguments = std::move(arguments)};
  command.time_limit = std::chrono::minutes(4);
  command.kept_bytes = std::size_t{4} << 20;  // documents are parsed whole
  command.stop = stop;
  auto outcome = run_process(command);
  EXPECT_TRUE(outcome) << outcome.error().text();
  return outcome ? *outcome : ProcessOutcome{};
}

}  // namespace

ProcessOutcome run(const std::string& words, const std::vector<std::string>& more, const std::stop_token& stop) {
  return run_command({TILESMITH_PROGRAM}, words, more, stop);
}

ProcessOutcome run_by(const std::string& shell, const std::string& words) {
  return run_command({"/bin/sh", "-c", shell, TILESMITH_PROGRAM}, words, {}, {});
}

nlohmann::json document(const ProcessOutcome& outcome) {
  nlohmann::json parsed = nlohmann::json::parse(outcome.output, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << "standard output is no JSON document:\n"
                                      << outcome.output << "\nerrors:\n"
                                      << outcome.errors;
  return parsed;
}

HostArray random_array(std::vector<std::int64_t> shape, std::uint64_t seed, const std::filesystem::path& path) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  fill_normal(values, {seed, 0}, 1.0F, 1);
  HostArray array = make_array(ElementType::fp32, std::move(shape), values);
  if (!path.empty()) {
    EXPECT_TRUE(write_npy(path, array));
  }
  return array;
}

}  // namespace tilesmith::testing
