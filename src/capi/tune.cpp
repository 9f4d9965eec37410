#include "tilesmith/tune.hpp"

#include <utility>

#include "capi/device.hpp"
#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

Result<TuneRequest> request_of(const tilesmith_tune_request& given) {
  if (given.problem_count < 0 || (given.problem_count > 0 && given.problems == nullptr))
    return fail(ErrorCode::invalid_argument, "tilesmith_tune_request has no problems",
                "an array of problem_count lines");
  if (given.reserved != 0)
    return fail(ErrorCode::invalid_argument, "tilesmith_tune_request::reserved is not 0",
                "TILESMITH_TUNE_REQUEST_INIT");
  TuneRequest request{.problems = {},
                      .device = {},
                      .threads = given.threads,
                      .budget_seconds = given.budget_seconds,
                      .candidates = given.candidates,
                      .again = given.again != 0,
                      .database = given.database == nullptr ? "" : given.database,
                      .file = given.file == nullptr ? "" : given.file};
  TS_ASSIGN(request.device, device_from_c(given.device, Device{}));
  for (int64_t i = 0; i < given.problem_count; ++i) {
    if (given.problems[i] == nullptr)
      return fail(ErrorCode::invalid_argument, "a line of tilesmith_tune_request::problems is NULL",
                  "a problem's line");
    request.problems.emplace_back(given.problems[i]);
  }
  return request;
}

Status write_report(TuneReport told, tilesmith_tune_report* out) {
  thread_local TuneReport kept;
  thread_local std::vector<tilesmith_tuned_problem> problems;
  thread_local std::vector<tilesmith_skipped_problem> skipped;
  kept = std::move(told);
  problems.clear();
  skipped.clear();
  for (const TunedProblem& each : kept.problems)
    problems.push_back({each.problem.c_str(), each.before.c_str(), each.chosen.c_str(), each.before_seconds,
                        each.chosen_seconds, each.gain});
  for (const SkippedProblem& each : kept.skipped) skipped.push_back({each.problem.c_str(), each.reason.c_str()});
  return write_struct("tilesmith_tune_report", out,
                      {.struct_size = sizeof *out,
                       .problems = problems.data(),
                       .problem_count = static_cast<int64_t>(problems.size()),
                       .skipped = skipped.data(),
                       .skipped_count = static_cast<int64_t>(skipped.size()),
                       .known = kept.known,
                       .database = kept.database.c_str()});
}

}  // namespace
}  // namespace tilesmith::capi

tilesmith_status tilesmith_tune(const tilesmith_tune_request* request, tilesmith_tune_report* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    tilesmith_tune_request room{};
    TS_ASSIGN(const tilesmith_tune_request* const given,
              capi::read_struct("tilesmith_tune_request", request, {}, room));
    TS_TRY(capi::check_struct("tilesmith_tune_report", out, sizeof *out));
    TS_ASSIGN(const TuneRequest asked, capi::request_of(*given));
    TS_ASSIGN(TuneReport told, tune(asked));
    return capi::write_report(std::move(told), out);
  });
}
