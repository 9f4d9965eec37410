// The operations that dispatch plans: those that a caller computes (problem/operations.hpp), and those that serve them.
// Each is a row: its problem, the arguments of a call, its name; PlanOf gives its plan, BackendOf what a device brings
// for it (backend.hpp). Direct operations have no plan: there is nothing to choose.
#pragma once

#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "dispatch/conv/pack_w.hpp"
#include "dispatch/gemm/pack_b.hpp"
#include "problem/operations.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// Problems of one operation that are computed as one call.
template <class Op>
struct ListOf;
template <>
struct ListOf<Gemm> {
  using Problem = std::vector<GemmProblem>;
  using Arguments = std::span<const GemmArguments>;
  static constexpr std::string_view kName = "gemm_list";
};

template <class Op>
struct PlanOf;
template <>
struct PlanOf<AttentionFwd> : std::type_identity<AttentionPlan> {};
template <>
struct PlanOf<AttentionBwd> : std::type_identity<AttentionBackwardPlan> {};
template <>
struct PlanOf<Gemm> : std::type_identity<GemmPlan> {};
template <>
struct PlanOf<GemmPackB> : std::type_identity<GemmPackBPlan> {};
template <>
struct PlanOf<ListOf<Gemm>> : std::type_identity<GemmListPlan> {};
template <>
struct PlanOf<Conv> : std::type_identity<ConvPlan> {};
template <>
struct PlanOf<ConvPackW> : std::type_identity<ConvPackWPlan> {};
template <class Op>
using PlanFor = typename PlanOf<Op>::type;

/// Operations whose plans run a recipe, and are kept by problem.
using RecipeOperations = decltype(std::tuple_cat(Operations{}, std::tuple<GemmPackB, ConvPackW>{}));
/// Operations whose plans are made of those of other operations; the caller keeps them.
using ListOperations = std::tuple<ListOf<Gemm>>;

struct MergeStatesCall {
  using Arguments = MergeStates;
  static constexpr std::string_view kName = "merge_states";
};
struct AppendKvCall {
  using Arguments = AppendKv;
  static constexpr std::string_view kName = "append_kv";
};
/// Operations that run as they are called.
using DirectOperations = std::tuple<MergeStatesCall, AppendKvCall>;
template <class Op>
inline constexpr bool is_direct = std::is_same_v<Op, MergeStatesCall> || std::is_same_v<Op, AppendKvCall>;

}  // namespace tilesmith
