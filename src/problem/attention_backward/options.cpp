// The options of attention-backward problems: those of attention forward, and which gradients are wanted.
#include <algorithm>
#include <cmath>
#include <utility>

#include "problem/derive.hpp"
#include "problem/line.hpp"
#include "problem/option_table.hpp"

namespace tilesmith {
namespace {

/// The fields that a backward problem has too; the others keep their defaults.
template <class From, class To>
void copy_common_fields(const From& from, To& to) {
  From::fields(from, [&]<class F>(std::string_view name, const F& value) {
    To::fields(to, [&]<class G>(std::string_view other, G& target) {
      if constexpr (std::is_same_v<F, G>)
        if (name == other) target = value;
    });
  });
}

RandomCall<AttentionFwd> forward_call(const RandomCall<AttentionBwd>& call) {
  RandomCall<AttentionFwd> forward{.problem = {}, .numbers = call.numbers};
  copy_common_fields(call.problem, forward.problem);
  return forward;
}

bool has_field(std::string_view field) {
  bool found = false;
  const AttentionBackwardProblem problem;
  AttentionBackwardProblem::fields(problem,
                                   [&](std::string_view name, const auto&) { found = found || name == field; });
  const AttentionNumbers numbers;
  AttentionNumbers::fields(numbers, [&](std::string_view name, const auto&) { found = found || name == field; });
  return found;
}

/// Forward's option on a backward problem.
ProblemOption<AttentionBwd> option_of(const ProblemOption<AttentionFwd>& forward) {
  return {.names = forward.names,
          .about = forward.about,
          .form = forward.form,
          .group = forward.group,
          .always = forward.always,
          .fields = forward.fields,
          .text = [text = forward.text](const RandomCall<AttentionBwd>& call) { return text(forward_call(call)); },
          .read = [read = forward.read](RandomCall<AttentionBwd>& call, std::string_view text) -> Status {
            RandomCall<AttentionFwd> of_forward = forward_call(call);
            TS_TRY(read(of_forward, text));
            copy_common_fields(of_forward.problem, call.problem);
            call.numbers = of_forward.numbers;
            return {};
          }};
}

}  // namespace

std::vector<ProblemOption<AttentionBwd>> Line<AttentionBwd>::options() {
  OptionTable<AttentionBwd> table;
  for (const ProblemOption<AttentionFwd>& option : Line<AttentionFwd>::options())
    if (std::ranges::all_of(option.fields, has_field)) table.group(option.group).add(option_of(option));
  table.group("Gradients")
      .field("dlse", {"--with-dlse"}, "The log-sum-exp has a gradient too")
      .field("dbias", {"--dbias"}, "Compute the gradient of the bias")
      .field("dalibi", {"--dalibi"}, "Compute the gradient of the ALiBi slopes")
      .field("dsink", {"--dsink"}, "Compute the gradient of the sink logits");
  return table.finish();
}

Status Line<AttentionBwd>::complete(RandomCall<AttentionBwd>& call, const GivenFields& given) {
  AttentionBackwardProblem& p = call.problem;
  if (!given.has("heads_kv")) p.heads_kv = p.heads_q;
  if (!given.has("seqlen_q")) p.seqlen_q = 512;
  if (!given.has("seqlen_k")) p.seqlen_k = p.seqlen_q;
  if (!given.has("head_dim_v")) p.head_dim_v = p.head_dim_qk;
  TS_TRY(validate(p));
  AttentionBackwardArguments dense = dense_arguments(p, call.numbers.layout);
  if (call.numbers.scale) dense.forward.scale = *call.numbers.scale;
  p = derived(p, dense);
  return {};
}

AttentionNumbers Line<AttentionBwd>::usual_numbers(const AttentionBackwardProblem& p) {
  return Line<AttentionFwd>::usual_numbers(forward_of(p));
}

}  // namespace tilesmith
