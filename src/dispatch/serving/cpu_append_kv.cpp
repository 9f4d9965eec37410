#include "dispatch/cpu_tasks.hpp"
#include "dispatch/serving/cpu.hpp"
#include "dispatch/serving/cpu_appender.hpp"

namespace tilesmith {

Status CpuAppendKv::run(const AppendKv& call, const RunOptions&) {
  const CpuAppender appender(call);
  run_tasks(team_, appender.tasks(), [&](long long task) { appender.run(task); });
  return {};
}

}  // namespace tilesmith
