// tilesmith arch: the architectures known, the devices found, and what each backend lacks.
#include <fmt/color.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/verbs.hpp"
#include "runtime/cpu_machine.hpp"
#include "spec/cpu_spec.hpp"

namespace tilesmith::cli {
namespace {

Status print_archs(bool as_json) {
  TS_ASSIGN(const std::vector<CpuSpec> specs, load_cpu_specs());
  const Result<CpuMachine>& machine = this_cpu_machine();

  if (as_json) {
    nlohmann::json cpu = {{"levels", nlohmann::json::array()}};
    if (machine) {
      cpu["model"] = machine->model;
      cpu["threads"] = machine->threads;
      cpu["arch"] = machine->levels.front().arch.text();
      cpu["l1d_bytes"] = machine->l1d_bytes;
      cpu["l2_bytes"] = machine->l2_bytes;
      cpu["l3_bytes"] = machine->l3_bytes;
    } else {
      cpu["error"] = machine.error().text();
    }
    for (const CpuSpec& spec : specs)
      cpu["levels"].push_back({{"arch", spec.arch.text()},
                               {"about", spec.about},
                               {"runs_here", machine && machine->level(spec.arch) != nullptr},
                               {"missing", machine ? missing_features(spec, machine->features) : spec.features}});
    fmt::print("{}", json_text({{"cpu", std::move(cpu)}}));
    return {};
  }

  if (machine)
    fmt::print("CPU  {}: {}, {} threads, L1d {} KiB, L2 {} KiB\n", machine->model, machine->levels.front().arch.text(),
               machine->threads, machine->l1d_bytes / 1024, machine->l2_bytes / 1024);
  else
    fmt::print("CPU  {}\n", machine.error().text());
  for (const CpuSpec& spec : specs) {
    const bool runs = machine && machine->level(spec.arch) != nullptr;
    const std::string state =
        runs ? std::string("runs here")
             : fmt::format("lacks {}",
                           fmt::join(machine ? missing_features(spec, machine->features) : spec.features, ", "));
    fmt::print("  {:16} {:28} {}\n", spec.arch.text(), state, spec.about);
  }
  return {};
}

}  // namespace

void add_arch(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("arch", "The architectures known, the devices found, and what each backend lacks");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "One JSON document");
  verb->callback([as_json, &exit_code] { exit_code = exit_code_of(print_archs(*as_json)); });
}

}  // namespace tilesmith::cli
