// What a wrong problem is told: a code, what is wrong and where, and what would be right. Nothing is done by halves.
#include "example.hpp"

int main() {
  tilesmith::Dispatcher dispatcher;
  const tilesmith::AttentionProblem good{.heads_q = 8, .heads_kv = 2, .seqlen_q = 64, .seqlen_k = 64};
  const auto refused = [&](auto change) {
    auto problem = good;
    change(problem);
    const auto plan = dispatcher.plan(problem);
    if (plan) return false;
    std::printf("%s: %s\n  %s\n", std::string(to_string(plan.error().code)).c_str(), plan.error().message.c_str(),
                plan.error().hint.c_str());
    return !plan.error().message.empty();
  };
  const bool all = refused([](auto& p) { p.heads_kv = 3; }) && refused([](auto& p) { p.seqlen_q = -1; }) &&
                   refused([](auto& p) { p.head_dim_v = 0; }) && refused([](auto& p) { p.window_left = -2; }) &&
                   refused([](auto& p) { p.data_type = tilesmith::DataType::int4; });
  const auto* plan = example::value_of(dispatcher.plan(good));
  const auto status = plan->run({});  // no pointers
  if (!status) std::printf("%s\n", status.error().text().c_str());
  return all && !status ? 0 : 1;
}
