// Decoding: one query, many keys. The keys are shared out in pieces, whose number is chosen or given; and two halves of
// the keys that were attended to apart are merged.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 8, kHeadsKv = 2, kKeys = 3000, kDim = 64;
}  // namespace

int main() {
  const auto q = example::random_tensor(kHeads * kDim, 1), k = example::random_tensor(kKeys * kHeadsKv * kDim, 2),
             v = example::random_tensor(kKeys * kHeadsKv * kDim, 3);
  tilesmith::Dispatcher dispatcher;
  const auto attend = [&](std::int64_t first, std::int64_t keys, std::int64_t splits, example::Tensor& o,
                          example::Tensor& lse) {
    const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                              .heads_q = kHeads,
                                              .heads_kv = kHeadsKv,
                                              .seqlen_q = 1,
                                              .seqlen_k = keys,
                                              .head_dim_qk = kDim,
                                              .head_dim_v = kDim,
                                              .lse = true,
                                              .splits = splits};
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bshd);
    call.q = q.data(), call.k = &k[first * kHeadsKv * kDim], call.v = &v[first * kHeadsKv * kDim];
    call.o = o.data(), call.lse = lse.data();
    const auto* plan = example::value_of(dispatcher.plan(problem));
    example::check(plan->run(call));
    std::printf("%d keys: %s\n", static_cast<int>(keys), plan->info().recipe.c_str());
  };
  example::Tensor whole(q.size()), pieces(q.size()), half[2] = {whole, whole}, lse[3] = {};
  for (auto& each : lse) each.resize(kHeads);
  attend(0, kKeys, 0, whole, lse[2]);
  attend(0, kKeys, 7, pieces, lse[2]);
  example::expect_near("7 pieces", pieces, whole, 1e-6);

  attend(0, 1000, 0, half[0], lse[0]);
  attend(1000, kKeys - 1000, 0, half[1], lse[1]);
  const void* outputs[] = {half[0].data(), half[1].data()};
  const float* lses[] = {lse[0].data(), lse[1].data()};
  example::Tensor merged(q.size()), merged_lse(kHeads);
  const tilesmith::AttentionStrides rows{.batch = kHeads * kDim, .head = kDim, .row = kDim},
      row{.batch = kHeads, .head = 1, .row = 1};
  example::check(dispatcher.merge_states({.data_type = tilesmith::DataType::fp32,
                                          .states = 2,
                                          .heads = kHeads,
                                          .head_dim = kDim,
                                          .outputs = outputs,
                                          .lses = lses,
                                          .output_strides = rows,
                                          .input_lse_strides = row,
                                          .o = merged.data(),
                                          .lse = merged_lse.data(),
                                          .o_strides = rows,
                                          .lse_strides = row}));
  example::expect_near("merged halves", merged, whole, 1e-6);
  example::expect_near("their log-sum-exp", merged_lse, lse[2], 1e-5);
}
