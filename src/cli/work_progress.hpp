// How far a verb is that compiles kernels and then measures them, problem by problem.
#pragma once

#include <memory>
#include <string>

#include "base/progress.hpp"

namespace tilesmith::cli {

class WorkProgress {
 public:
  /// `work` is what comes behind compiling: "measuring".
  explicit WorkProgress(std::string work) : work_(std::move(work)) {}

  void compiled(std::size_t done, std::size_t total, std::size_t failed);
  /// Compiling is over.
  void worked(std::size_t done, std::size_t total, std::size_t failed = 0);
  /// Says how both ended; of the work `done`, unless it was stopped.
  void end(std::size_t done, std::size_t failed = 0);
  void stop();

 private:
  std::string work_;
  std::unique_ptr<Progress> compiling_, working_;
};

}  // namespace tilesmith::cli
