#include <fmt/format.h>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/serving/problem.hpp"
#include "problem/serving/types.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

Status validate(const MergeStates& call) {
  return validate(call, DeviceKind::cpu);
}

// The lists of pointers are the host's on every device.
Status validate(const MergeStates& c, DeviceKind) {
  TS_TRY(check_floating_type("merge_states", c.data_type));
  TS_TRY(check_dimension("states", c.states, 1));
  TS_TRY(check_dimension("batch", c.batch, 0));
  TS_TRY(check_dimension("heads", c.heads, 0));
  TS_TRY(check_dimension("seqlen", c.seqlen, 0));
  TS_TRY(check_dimension("head_dim", c.head_dim, 1));
  const auto check = [&](const char* name, const AttentionStrides& s, std::int64_t dim) {
    return check_strides(name, {{c.batch, s.batch}, {c.heads, s.head}, {c.seqlen, s.row}, {dim, 1}}, 4);
  };
  TS_TRY(check("outputs", c.output_strides, c.head_dim));
  TS_TRY(check("lses", c.input_lse_strides, 1));
  TS_TRY(check("o", c.o_strides, c.head_dim));
  TS_TRY(check("lse", c.lse_strides, 1));
  const auto apart = [&](const char* name, const AttentionStrides& s, std::int64_t dim) {
    return check_apart(name, {{{c.batch, s.batch}, {c.heads, s.head}, {c.seqlen, s.row}, {dim, 1}}});
  };
  TS_TRY(apart("o", c.o_strides, c.head_dim));
  if (c.lse != nullptr) TS_TRY(apart("lse", c.lse_strides, 1));
  const bool some = c.batch > 0 && c.heads > 0 && c.seqlen > 0;
  TS_TRY(check_pointer("outputs", c.outputs, some, "the parts' outputs"));
  TS_TRY(check_pointer("lses", c.lses, some, "the parts' log-sum-exps"));
  TS_TRY(check_pointer("o", c.o, some, "a tensor for the output"));
  for (std::int64_t i = 0; some && i < c.states; ++i) {
    TS_TRY(check_pointer(fmt::format("outputs[{}]", i), c.outputs[i], true, "a part's output"));
    TS_TRY(check_pointer(fmt::format("lses[{}]", i), c.lses[i], true, "a part's log-sum-exp"));
  }
  return {};
}

}  // namespace tilesmith
