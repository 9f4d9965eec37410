#include "cli/work_progress.hpp"

#include <fmt/core.h>

namespace tilesmith::cli {
namespace {

std::string remark(std::size_t failed) {
  return failed == 0 ? std::string() : fmt::format("{} failed", failed);
}

}  // namespace

void WorkProgress::compiled(std::size_t done, std::size_t total, std::size_t failed) {
  if (!compiling_) compiling_ = std::make_unique<Progress>("compiling", total);
  compiling_->update(done, remark(failed));
}

void WorkProgress::worked(std::size_t done, std::size_t total, std::size_t failed) {
  compiling_.reset();
  if (!working_) working_ = std::make_unique<Progress>(work_, total);
  working_->update(done, remark(failed));
}

void WorkProgress::end(std::size_t done, std::size_t failed) {
  if (working_) working_->update(done, remark(failed));
  stop();
}

void WorkProgress::stop() {
  working_.reset();
  compiling_.reset();
}

}  // namespace tilesmith::cli
