// Problems as JSON: every field by its name, derived from the field lists.
#pragma once

#include "base/json.hpp"
#include "problem/describe.hpp"
#include "problem/operations.hpp"
#include "vocabulary/field_json.hpp"

namespace tilesmith {

/// Keys beside the fields that say some of them together, for people and for programs that read results: the window of
/// attention, and the orders of a GEMM's matrices.
void add_joined_fields(nlohmann::json& json, const AttentionProblem& problem);
void add_joined_fields(nlohmann::json& json, const AttentionBackwardProblem& problem);
void add_joined_fields(nlohmann::json& json, const GemmProblem& problem);
template <class Other>
void add_joined_fields(nlohmann::json&, const Other&) {}

template <OperationProblem P>
[[nodiscard]] nlohmann::json to_json(const P& problem) {
  nlohmann::json out = struct_to_json(problem);
  add_joined_fields(out, problem);
  return out;
}

[[nodiscard]] inline nlohmann::json to_json(const AnyProblem& problem) {
  return std::visit([](const auto& each) { return to_json(each); }, problem);
}

/// The inverse of to_json. Absent fields have their defaults; an unknown field or a value of the wrong kind is an error
/// that names the JSON path, the value, and what would be right.
template <OperationProblem P>
[[nodiscard]] Result<P> problem_from_json(const nlohmann::json& from, const std::string& path = "$") {
  P problem;
  nlohmann::json fields = from, joined = nlohmann::json::object();
  add_joined_fields(joined, problem);
  if (fields.is_object())
    for (const auto& [name, value] : joined.items()) fields.erase(name);
  TS_TRY(struct_from_json(fields, path, problem));
  return problem;
}

}  // namespace tilesmith
