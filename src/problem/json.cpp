#include "problem/json.hpp"

namespace tilesmith {

void add_joined_fields(nlohmann::json& json, const AttentionProblem& problem) {
  json["window"] = {problem.window_left, problem.window_right};
}

void add_joined_fields(nlohmann::json& json, const AttentionBackwardProblem& problem) {
  json["window"] = {problem.window_left, problem.window_right};
}

void add_joined_fields(nlohmann::json& json, const GemmProblem& problem) {
  json["layout"] = layout_of(problem);
}

}  // namespace tilesmith
