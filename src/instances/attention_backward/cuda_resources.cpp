#include "instances/attention_backward/cuda_resources.hpp"

#include <algorithm>

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
constexpr int kBackwardWarpgroups = 2;  // of 64 rows each

/// `operands` in bytes, with `alignment` more where the kernel aligns them itself.
void persistent_backward(const AttentionSignature& s, int barriers, long operands, long alignment, long item_bytes,
                         CudaBackwardResources& facts) {
  facts.threads = 128 * (kBackwardWarpgroups + 1);
  facts.persistent = true;
  facts.launch_registers = 65536 / facts.threads / 8 * 8;
  facts.producer_registers = 24;
  facts.consumer_registers = 240;
  constexpr long kItemSlots = 2;
  const long words = s.dropout ? 4 * kBackwardWarpgroups * 512 : 0;
  const long before_items = operands + words + 8 * (barriers + 2 * kItemSlots);
  const long items = round_up_to(static_cast<int>(before_items), item_bytes > 4 ? 16 : 4);
  facts.shared_bytes = round_up_to(static_cast<int>(items + kItemSlots * item_bytes), 16) + alignment;
}

void products_facts(const AttentionSignature& s, const Algorithm& a, CudaBackwardResources& facts) {
  facts.box_queries = a.tile[0];
  facts.box_keys = a.tile[1];
  facts.sum_columns = 64 * columns_of_64(s.head_dim_qk);
  const long queries = a.tile[0], keys = a.tile[1];
  const long columns = columns_of_64(s.head_dim_qk) + columns_of_64(s.head_dim_v);
  const long of_item = keys * 128 * columns;
  const long of_tiles = a.stages * queries * 128 * columns + 2 * (2 * queries * 128);
  const long of_dq = queries * facts.sum_columns * 4;
  constexpr long kSharedLimit = 232448, kSmall = 3072, kWords = 4096, kPlaceBytes = 24;
  const auto has_room = [&](int residents, int buffers) {
    return residents * of_item + of_tiles + buffers * of_dq + (s.dropout ? kWords : 0) + kSmall <= kSharedLimit;
  };
  const int residents = a.tile[0] == 128 && has_room(2, s.deterministic ? 1 : 0) ? 2 : 1;
  const int buffers = !s.deterministic ? 0 : has_room(residents, 2) ? 2 : 1;
  const int parts = buffers * kBackwardWarpgroups;
  persistent_backward(
      s, 2 + 3 * residents + 4 * a.stages + 2 * parts,
      residents * of_item + of_tiles + buffers * of_dq + a.stages * queries * 2 * 4 + parts * kPlaceBytes, 0,
      s.mode == SequenceMode::group && a.tile[0] == 128 ? 48 : 4, facts);

  // A thread's share of 64 x queries of scores and of their gradients, of 64 x head dim of dk and dv, and of dq; and
  // addresses and counters.
  const int sums = (round_up_to(s.head_dim_qk, 16) + round_up_to(s.head_dim_v, 16)) / 2;
  const int share_of_dq = a.tile[0] * facts.sum_columns / (kBackwardWarpgroups * 128);
  facts.needed_registers = a.tile[0] + sums + share_of_dq + 16;
}

void rows_facts(const AttentionSignature& s, const Algorithm& a, CudaBackwardResources& facts) {
  facts.box_queries = facts.box_keys = a.tile[1];
  const long rows = a.tile[0], step = a.tile[1];
  const long first = columns_of_64(s.head_dim_qk), second = columns_of_64(s.head_dim_v);
  const long resident = rows * 128 * (first + second), streamed = step * 128 * (a.stages * first + second);
  persistent_backward(s, 4 + 4 * a.stages, resident + streamed + 2L * a.stages * step * 4, 1024, 16, facts);
  facts.passes_score_gradients = s.mask != MaskKind::generic && !s.soft_cap && s.bias == BiasKind::none && second >= 2;
  // A thread's share of 64 x step of scores, of their gradients and of the weights, and of 64 x head dim of sums.
  const int widest = std::max(round_up_to(s.head_dim_qk, 16), round_up_to(s.head_dim_v, 16));
  facts.needed_registers = a.tile[1] + a.tile[1] / 4 + widest / 2 + 16;
}

void mma_facts(const AttentionSignature& s, const Algorithm& a, CudaBackwardResources& facts) {
  constexpr int kWarpRows = 16;
  const int rows = a.tile[0], step = a.tile[1];
  const long element = bits_of(s.data_type) / 8;
  const long widths[] = {round_up_to(s.head_dim_qk, 16), round_up_to(s.head_dim_v, 16)};
  facts.threads = rows / kWarpRows * 32;
  facts.shared_bytes =
      long{rows + step} * (element * (widths[0] + widths[1]) + 2 * 16) + (s.dropout ? rows / kWarpRows * 512 : 0);
  facts.consumer_registers = 255;
  // A thread's share of 16 x step of scores, of their gradients and of the weights, and of 16 x head dim of sums.
  facts.needed_registers = step + step / 4 + static_cast<int>(std::max(widths[0], widths[1])) / 2 + 16;
}

}  // namespace

CudaBackwardResources cuda_backward_resources(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  CudaBackwardResources facts;
  facts.tile_queries = config.algorithm.tile[0];
  if (config.algorithm.pipeline == Pipeline::mma_sm80) {
    mma_facts(s, config.algorithm, facts);
  } else if (s.family != AttentionFamily::bwd_dq_dk_dv) {
    facts.threads = kRowwiseThreads;
    facts.sum_columns = config.algorithm.tile[1];
  } else if (config.algorithm.pipeline == Pipeline::flash) {
    rows_facts(s, config.algorithm, facts);
  } else {
    products_facts(s, config.algorithm, facts);
  }
  return facts;
}

}  // namespace tilesmith
