// Masks: causal from either corner, a sliding window, and a mask that is moved by its diagonal. Each is compared with
// the definition at one row: which keys does it see?
#include "example.hpp"

namespace {
constexpr std::int64_t kRows = 40, kKeys = 70, kDim = 32, kRow = 25;
constexpr auto kSeen = kKeys - kRows + kRow;  // the last key that row 25 sees from the bottom right corner

struct Case {
  const char* name;
  tilesmith::AttentionProblem problem;
  std::int64_t first, last;  // what the row sees
};
}  // namespace

int main() {
  using enum tilesmith::MaskKind;
  const tilesmith::AttentionProblem plain{.data_type = tilesmith::DataType::fp32,
                                          .seqlen_q = kRows,
                                          .seqlen_k = kKeys,
                                          .head_dim_qk = kDim,
                                          .head_dim_v = kDim};
  const auto with = [&](auto change) {
    auto problem = plain;
    change(problem);
    return problem;
  };
  const Case cases[] = {
      {"none", plain, 0, kKeys - 1},
      {"top_left", with([](auto& p) { p.mask = top_left; }), 0, kRow},
      {"bottom_right", with([](auto& p) { p.mask = bottom_right; }), 0, kSeen},
      {"window of 8 keys to the left", with([](auto& p) { p.mask = bottom_right, p.window_left = 8; }), kSeen - 8,
       kSeen},
      {"window of 5 to either side", with([](auto& p) { p.window_left = p.window_right = 5; }), kSeen - 5, kSeen + 5},
      {"strictly before", with([](auto& p) { p.mask = bottom_right, p.diagonal = -1; }), 0, kSeen - 1},
  };
  const auto q = example::random_tensor(kRows * kDim, 1), k = example::random_tensor(kKeys * kDim, 2),
             v = example::random_tensor(kKeys * kDim, 3);
  tilesmith::Dispatcher dispatcher;
  for (const auto& [name, problem, first, last] : cases) {
    example::Tensor o(q.size());
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
    call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
    example::check(example::value_of(dispatcher.plan(problem))->run(call));
    std::vector<double> logits(kKeys, -INFINITY);
    for (auto j = first; j <= last; ++j) logits[j] = call.scale * example::dot(&q[kRow * kDim], &k[j * kDim], kDim);
    example::expect_near(name, {&o[kRow * kDim], kDim}, example::attend(logits, v, kDim), 1e-5);
  }
}
