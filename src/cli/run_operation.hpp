// What `tilesmith run` asks of an operation beside its case: one specialisation of RunOperation for each row.
#pragma once

#include <array>

#include "base/json.hpp"
#include "cli/attention/options.hpp"
#include "cli/attention_backward/options.hpp"
#include "cli/conv/options.hpp"
#include "cli/gemm/options.hpp"
#include "cli/tensor_file.hpp"
#include "trial/host_outputs.hpp"

namespace tilesmith::cli {

/// A specialisation has the options with their files, and
///
///   targets(options)                    where which outputs are written, by the outputs' names
///   add_figures(json, case, outputs)    adds outputs that are single numbers
template <class Op>
struct RunOperation;

template <>
struct RunOperation<AttentionFwd> {
  using Options = AttentionOptions;

  [[nodiscard]] static std::vector<TensorTarget> targets(const Options& o) { return {{o.out, "o"}, {o.lse, "lse"}}; }
  static void add_figures(nlohmann::json&, const AttentionCase&, const HostOutputs&) {}
};

template <>
struct RunOperation<AttentionBwd> {
  using Options = AttentionBackwardOptions;

  [[nodiscard]] static std::vector<TensorTarget> targets(const Options& o) {
    std::vector<TensorTarget> out{{o.dq, "dq"}, {o.dk, "dk"}, {o.dv, "dv"}};
    if (!o.dbias.empty()) out.push_back({o.dbias, "dbias"});
    if (!o.dalibi.empty()) out.push_back({o.dalibi, "dalibi"});
    if (!o.dsink.empty()) out.push_back({o.dsink, "dsink"});
    return out;
  }
  static void add_figures(nlohmann::json&, const AttentionBackwardCase&, const HostOutputs&) {}
};

template <>
struct RunOperation<Gemm> {
  using Options = GemmOptions;

  [[nodiscard]] static std::vector<TensorTarget> targets(const Options& o) { return {{o.out, "d"}}; }
  static void add_figures(nlohmann::json& json, const GemmCase& problem_case, const HostOutputs& outputs) {
    if (problem_case.wants_amax()) json["amax"] = outputs.array("amax").to_floats().front();
  }
};

template <>
struct RunOperation<Conv> {
  using Options = ConvOptions;

  [[nodiscard]] static std::vector<TensorTarget> targets(const Options& o) { return {{o.out, "out"}}; }
  static void add_figures(nlohmann::json&, const ConvCase&, const HostOutputs&) {}
};

}  // namespace tilesmith::cli
