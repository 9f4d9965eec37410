#include "cli/attention/tree_mask.hpp"

#include <fmt/format.h>

#include <vector>

#include "cli/tensor_file.hpp"
#include "tilesmith/tree_mask.hpp"

namespace tilesmith::cli {

Result<HostArray> read_tree_mask(const std::string& file, const AttentionProblem& problem,
                                 const AttentionInputs& inputs) {
  if (problem.page_size > 0)
    return fail(ErrorCode::invalid_argument, "--tree-mask with --page-size",
                "no pages: sequences of pages have random lengths here, which a mask cannot know");
  TS_ASSIGN(const HostArray mask, read_tensor(file));
  const bool packed = !inputs.cu_seqlens_q.empty();
  std::vector<std::int64_t> wanted = {problem.batch, problem.seqlen_q};
  if (packed) wanted = {inputs.cu_seqlens_q.back()};
  const bool fits = mask.shape.size() == wanted.size() + 1 &&
                    std::equal(wanted.begin(), wanted.end(), mask.shape.begin()) &&
                    mask.shape.back() >= problem.seqlen_q;
  if (!fits)
    return fail(ErrorCode::invalid_argument, fmt::format("the tree mask has shape {}", shape_text(mask.shape)),
                fmt::format("{} and a last dimension of {} keys or more", shape_text(wanted), problem.seqlen_q));

  const std::int64_t keys = mask.shape.back(), words = (keys + 31) / 32;
  const auto rows = static_cast<std::int64_t>(mask.count()) / std::max<std::int64_t>(keys, 1);
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(rows * words));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t t = 0; t < keys; ++t)
      if (load_element(mask.type, mask.data.data(), static_cast<std::size_t>(row * keys + t)) != 0)
        bits[static_cast<std::size_t>(row * words + t / 32)] |= 1U << (t % 32);
  std::vector<std::int32_t> lengths;
  for (std::size_t b = 1; b < inputs.cu_seqlens_k.size(); ++b)
    lengths.push_back(inputs.cu_seqlens_k[b] - inputs.cu_seqlens_k[b - 1]);

  const std::vector<std::int64_t> shape = {problem.batch, 1, problem.seqlen_q, problem.seqlen_k};
  TS_ASSIGN(const std::uint64_t bytes, byte_size(ElementType::fp32, shape));
  std::vector<float> bias(bytes / sizeof(float));
  TS_TRY(tree_bias({.batch = problem.batch,
                    .seqlen_q = problem.seqlen_q,
                    .seqlen_k = problem.seqlen_k,
                    .words = words,
                    .bits = bits.data(),
                    .cu_seqlens_q = packed ? inputs.cu_seqlens_q.data() : nullptr,
                    .seqlens_k = lengths.empty() ? nullptr : lengths.data()},
                   bias.data()));
  return make_array(ElementType::fp32, shape, bias);
}

}  // namespace tilesmith::cli
