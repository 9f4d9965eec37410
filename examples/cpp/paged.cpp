// A cache of pages: new keys and values are appended, turned by RoPE (keys and queries), and attended to where they
// lie.
#include "example.hpp"

namespace {
constexpr std::int64_t kBatch = 2, kHeads = 4, kDim = 64, kPage = 16, kPages = 9, kNew = 20;
constexpr std::int32_t kTable[] = {7, 2, 5, 0, 8, 3};  // three pages for each sequence, anywhere in the cache
}  // namespace

int main() {
  tilesmith::Dispatcher dispatcher;
  const auto k = example::random_tensor(kBatch * kNew * kHeads * kDim, 1),
             v = example::random_tensor(kBatch * kNew * kHeads * kDim, 2);
  auto q = example::random_tensor(kBatch * kNew * kHeads * kDim, 3);
  example::Tensor k_cache(kPages * kPage * kHeads * kDim, NAN), v_cache = k_cache, cos(64 * kDim / 2), sin = cos;
  for (std::int64_t i = 0; i < 64 * kDim / 2; ++i) {
    const double angle = double(i / (kDim / 2)) * std::pow(10000, -2.0 * double(i % (kDim / 2)) / kDim);
    cos[i] = static_cast<float>(std::cos(angle)), sin[i] = static_cast<float>(std::sin(angle));
  }
  const tilesmith::AttentionStrides tokens{.batch = kNew * kHeads * kDim, .head = kDim, .row = kHeads * kDim},
      pages{.batch = kPage * kHeads * kDim, .head = kDim, .row = kHeads * kDim};
  const std::int32_t before[kBatch] = {0, 0}, after[kBatch] = {kNew, kNew};
  tilesmith::AppendKv append;
  append.data_type = tilesmith::DataType::fp32, append.batch = kBatch, append.seqlen = kNew, append.page_size = kPage;
  append.heads_q = append.heads_kv = kHeads, append.head_dim_qk = append.head_dim_v = kDim;
  append.k = k.data(), append.v = v.data(), append.q = append.q_out = q.data();
  append.k_cache = k_cache.data(), append.v_cache = v_cache.data();
  append.k_strides = append.v_strides = append.q_strides = append.q_out_strides = tokens;
  append.k_cache_strides = append.v_cache_strides = pages;
  append.pages = {.lengths = before, .numbers = kTable, .stride = 3, .num_pages = kPages};
  append.rotary = {.dim = kDim, .cos = cos.data(), .sin = sin.data(), .row_stride = kDim / 2, .positions = 64};
  example::check(dispatcher.append_kv(append));

  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .batch = kBatch,
                                            .heads_q = kHeads,
                                            .heads_kv = kHeads,
                                            .seqlen_q = kNew,
                                            .seqlen_k = 3 * kPage,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .mask = tilesmith::MaskKind::bottom_right,
                                            .page_size = kPage};
  example::Tensor o(q.size());
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bshd);
  call.q = q.data(), call.k = k_cache.data(), call.v = v_cache.data(), call.o = o.data();
  call.pages = {.lengths = after, .numbers = kTable, .stride = 3, .num_pages = kPages};
  example::check(example::value_of(dispatcher.plan(problem))->run(call));

  // The first token of the second sequence sees itself alone, so its output is its value.
  example::expect_near("first token", {&o[kNew * kHeads * kDim], kHeads * kDim},
                       {&v[kNew * kHeads * kDim], kHeads * kDim}, 1e-6);
  const bool finite = std::ranges::all_of(o, [](float each) { return std::isfinite(each); });
  return finite ? 0 : 1;  // what was never written is NaN
}
