#include "sweep/build_list.hpp"

#include <algorithm>

#include "dispatch/steps.hpp"

namespace tilesmith {

void BuildList::add(const Recipe& recipe) {
  for (const Step& step : recipe.steps)
    if (index_.emplace(key_of(step.config), configs_.size()).second) configs_.push_back(step.config);
}

Status BuildList::built(std::vector<Status> statuses) {
  statuses_ = std::move(statuses);
  const auto is_cancelled = [](const Status& status) { return !status && status.error().code == ErrorCode::cancelled; };
  const auto cancelled = std::ranges::find_if(statuses_, is_cancelled);
  return cancelled == statuses_.end() ? Status() : *cancelled;
}

Status BuildList::of(const Recipe& recipe) const {
  for (std::size_t step = 0; step < recipe.steps.size(); ++step)
    if (const Status& status = statuses_[index_.at(key_of(recipe.steps[step].config))]; !status)
      return std::unexpected(of_step(status.error(), recipe, step));
  return {};
}

}  // namespace tilesmith
