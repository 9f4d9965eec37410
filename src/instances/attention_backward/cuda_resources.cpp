#include "instances/attention_backward/cuda_resources.hpp"

#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int columns_of_64(int head_dim) {
  return (head_dim + 63) / 64;
}
constexpr int round_up_to(int value, int step) {
  return (value + step - 1) / step * step;
}

constexpr int kRowwiseThreads = 256;
constexpr int kBackwardWarpgroups = 2;  // of 64 keys each

void products_facts(const AttentionSignature& s, const Algorithm& a, CudaBackwardResources& facts) {
  facts.tile_keys = a.tile[1];
  facts.threads = 128 * (kBackwardWarpgroups + 1);
  facts.persistent = true;
  facts.launch_registers = 65536 / facts.threads / 8 * 8;
  facts.producer_registers = 24;
  facts.consumer_registers = 240;

  const long queries = a.tile[0], keys = a.tile[1];
  const long columns = columns_of_64(s.head_dim_qk) + columns_of_64(s.head_dim_v);
  const long stage = queries * (128 * columns + 2 * 4);  // and the statistics
  constexpr long kItemSlots = 2, kAlignment = 1024;
  const long words = s.dropout ? 4 * kBackwardWarpgroups * 512 : 0;
  const long barriers = 8 * (3 + 4 * a.stages + 2 * kItemSlots);
  const long before_items = keys * 128 * columns + a.stages * stage + 2 * (2 * queries * 128) + words + barriers;
  facts.shared_bytes = round_up_to(static_cast<int>(before_items + kItemSlots * 4), 16) + kAlignment;

  // A thread's share of 64 x queries of scores and of their gradients, of 64 x head dim of dk and dv, and of dq; and
  // addresses and counters.
  const int sums = (round_up_to(s.head_dim_qk, 16) + round_up_to(s.head_dim_v, 16)) / 2;
  const int of_dq = a.tile[0] * facts.sum_columns / (kBackwardWarpgroups * 128);
  facts.needed_registers = a.tile[0] + sums + of_dq + 16;
}

}  // namespace

CudaBackwardResources cuda_backward_resources(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  CudaBackwardResources facts;
  facts.tile_queries = config.algorithm.tile[0];
  facts.sum_columns = 64 * columns_of_64(s.head_dim_qk);
  if (s.family == AttentionFamily::bwd_dq_dk_dv)
    products_facts(s, config.algorithm, facts);
  else
    facts.threads = kRowwiseThreads;
  return facts;
}

}  // namespace tilesmith
