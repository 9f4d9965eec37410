#include "trial/serving/direct_case.hpp"

#include "trial/device.hpp"

namespace tilesmith {

Result<DirectReport> try_direct(const DirectCase& direct, Dispatcher& dispatcher, bool verify, bool time) {
  TS_ASSIGN(const std::unique_ptr<TrialDevice> device, open_trial_device(dispatcher.device(), direct.inputs()));
  const std::vector<OutputSpec> specs = direct.outputs();
  std::vector<std::vector<std::byte>> written;
  std::vector<OutputMemory> memory;
  for (const OutputSpec& spec : specs) written.emplace_back(bytes_of(spec), DirectCase::kBefore);
  for (std::size_t i = 0; i < specs.size(); ++i) memory.push_back({.spec = &specs[i], .storage = written[i]});
  const auto bind = [&](const CallMemory& where, const RunOptions& options) -> ReadyCall {
    return [&direct, &dispatcher, where, options] { return direct.call(dispatcher, where, options); };
  };
  if (verify) TS_TRY(device->keep_inputs());
  TS_TRY(device->run(memory, 0, bind));
  DirectReport report;
  if (verify) {
    report.fault = direct.fault(written);
    TS_ASSIGN(const std::optional<ChangedInput> changed, device->changed_input());
    if (changed && report.fault->empty())
      report.fault = "the call changed its input " + changed->name + " at byte " + std::to_string(changed->byte);
  }
  if (time && (!report.fault || report.fault->empty())) {
    TS_ASSIGN(const Timing timing, device->time(specs, bind, {}));
    report.timing = trial_timing(timing, 0, direct.bytes());
  }
  return report;
}

}  // namespace tilesmith
