// One call for a batch as a server has it: a prompt, a chunk of a longer prompt, and a decoding sequence. Queries are
// packed behind one another (group mode), keys lie in pages.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 8, kHeadsKv = 2, kDim = 64, kPage = 16, kPages = 12;
constexpr std::int32_t kEnds[] = {0, 40, 56, 57};                           // 40, 16 and 1 queries
constexpr std::int32_t kLengths[] = {40, 64, 33};                           // keys, the new ones included
constexpr std::int32_t kTable[] = {4, 9, 1, -1, 0, 3, 8, 2, 11, 7, 5, -1};  // four entries a row, as many as are needed
}  // namespace

int main() {
  const auto q = example::random_tensor(57 * kHeads * kDim, 1),
             k = example::random_tensor(kPages * kPage * kHeadsKv * kDim, 2),
             v = example::random_tensor(kPages * kPage * kHeadsKv * kDim, 3);
  tilesmith::Dispatcher dispatcher;
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .mode = tilesmith::SequenceMode::group,
                                            .batch = 3,
                                            .heads_q = kHeads,
                                            .heads_kv = kHeadsKv,
                                            .seqlen_q = 40,
                                            .seqlen_k = 64,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .mask = tilesmith::MaskKind::bottom_right,
                                            .page_size = kPage};
  example::Tensor o(q.size());
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bshd, 57);
  call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data(), call.cu_seqlens_q = kEnds;
  call.pages = {.lengths = kLengths, .numbers = kTable, .stride = 4, .num_pages = kPages};
  example::check(example::value_of(dispatcher.plan(problem))->run(call));

  // The last query of each sequence sees all of its keys.
  for (std::int64_t b = 0; b < 3; ++b) {
    const std::int64_t row = kEnds[b + 1] - 1, head = 5, head_kv = head / (kHeads / kHeadsKv);
    std::vector<double> logits(kLengths[b]);
    example::Tensor values;
    for (std::int64_t j = 0; j < kLengths[b]; ++j) {
      const std::int64_t at = ((kTable[4 * b + j / kPage] * kPage + j % kPage) * kHeadsKv + head_kv) * kDim;
      logits[j] = call.scale * example::dot(&q[(row * kHeads + head) * kDim], &k[at], kDim);
      values.insert(values.end(), &v[at], &v[at] + kDim);
    }
    example::expect_near("last query", {&o[(row * kHeads + head) * kDim], kDim}, example::attend(logits, values, kDim),
                         1e-5);
  }
}
