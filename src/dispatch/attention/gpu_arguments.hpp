// A call's arguments for attention kernels of GPUs of every vendor: what is asked of them, and the part of a kernel's
// structure that all have.
#pragma once

#include <algorithm>
#include <concepts>

#include "base/error.hpp"
#include "problem/attention/kernel_arguments.hpp"

namespace tilesmith {

inline constexpr std::int64_t kLongestOfGpu = std::int64_t{1} << 30;  ///< kernels count rows in 32 bits
inline constexpr std::int64_t kGpuAlignment = 16;                     ///< bytes that are copied at a time

/// Error: invalid_argument, a tensor of `members` by `heads` by rows that cannot be copied 16 bytes at a time.
[[nodiscard]] Status check_gpu_alignment(const char* name, const void* pointer, const AttentionStrides& strides,
                                         std::int64_t members, std::int64_t heads, std::int64_t element_bytes);

/// Error: invalid_argument, unsupported; what no kernel of a GPU can take.
[[nodiscard]] Status check_gpu_attention(const AttentionProblem& problem, const AttentionArguments& arguments,
                                         DeviceKind device);

/// Whether a call has queries. Packed sequences may have none, however long the longest may be: then there is no total,
/// and no address either.
[[nodiscard]] inline bool has_queries(const AttentionProblem& p, const AttentionArguments& a) {
  return p.batch > 0 && p.seqlen_q > 0 && (p.mode == SequenceMode::batch || a.total_q > 0 || a.q != nullptr);
}

/// Writes the numbers with which a kernel divides a key's number by the page size: with page_multiplier and page_shift
/// of `out`, key / page_size is (high word of key * page_multiplier + key) >> page_shift for keys below 2^31.
template <class Args>
void divide_by_page(std::int64_t page_size, Args& out) {
  page_size = std::min(page_size, kLongestOfGpu);  // the first page has all keys then
  while ((std::int64_t{1} << out.page_shift) < page_size) ++out.page_shift;
  const auto rest = static_cast<std::uint64_t>((std::int64_t{1} << out.page_shift) - page_size);
  out.page_multiplier = static_cast<unsigned>((rest << 32) / static_cast<std::uint64_t>(page_size) + 1);
}

template <std::derived_from<TsAttentionCall> Args>
[[nodiscard]] Args gpu_attention_arguments(const AttentionProblem& p, const AttentionArguments& a) {
  auto out = shared_kernel_args<Args>(p, a);
  // A kernel with a bound the problem lacks is given one beyond every sequence.
  out.window_left = out.window_left < 0 ? kLongestOfGpu : out.window_left - p.diagonal;
  out.window_right = out.window_right < 0 ? kLongestOfGpu : out.window_right + p.diagonal;
  // One block of keys may be masked even without keys: there is no bias to load with it.
  if (p.seqlen_k == 0) out.bias = nullptr;
  return out;
}

}  // namespace tilesmith
