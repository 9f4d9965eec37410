#include "cli/build_kernels.hpp"

#include <fmt/core.h>

#include <map>
#include <set>
#include <string>

#include "cli/work_progress.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith::cli {

Status build_kernels(KernelBuilder& builder, std::span<const KernelConfig> configs, int workers) {
  WorkProgress progress("");
  const auto report = [&](std::size_t done, std::size_t total, std::size_t failed) {
    progress.compiled(done, total, failed);
  };
  const std::vector<Status> built = builder.build(configs, workers, report, Keep::required);
  progress.stop();
  constexpr std::size_t kMostSaid = 10;
  std::size_t failed = 0, sourceless = 0;
  std::set<std::string> said;                   // a missing compiler is missed by every kernel
  std::map<std::string, std::size_t> refusals;  // of instances without a source
  for (std::size_t i = 0; i < built.size(); ++i) {
    if (built[i]) continue;
    const Error& error = built[i].error();
    if (configs[i].origin == Origin::ck && error.code == ErrorCode::unsupported) {
      // "NAME: rule R: figures" or "NAME: reason"
      std::string reason = error.message.substr(error.message.find(": ") + 2);
      if (reason.starts_with("rule ")) reason.resize(reason.find(':'));
      ++refusals[reason];
      ++sourceless;
      continue;
    }
    ++failed;
    if (said.insert(error.message).second && said.size() <= kMostSaid)
      fmt::print(stderr, "{}: {}\n", kernel_name(configs[i]), error.text());
  }
  for (const auto& [reason, count] : refusals) fmt::print("{} without a source: {}\n", count, reason);
  fmt::print("{} of {} instances are in the store\n", built.size() - failed - sourceless, built.size());
  if (failed > 0) return fail(ErrorCode::compile_failed, fmt::format("{} instances are not in the store", failed));
  return {};
}

}  // namespace tilesmith::cli
