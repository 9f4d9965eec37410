// What random attention tensors have that normal numbers lack. Trials and the property tests draw the same: each shape
// here drives a branch of the kernels that plain normal numbers leave unused.
#pragma once

#include <cstdint>

namespace tilesmith {

/// What the values of a query row are multiplied by. Normal numbers never raise a row's maximum by 2^8 behind the first
/// keys, so the lazy rescaling of online softmax would never run. Every fourth group of 16 rows, another one in each
/// head, is eight times louder: its maxima rise often. The others keep their moderate logits, which show small errors
/// best.
[[nodiscard]] float loudness(std::int64_t head, std::int64_t row);

/// What the values of a key or value row are multiplied by where blocks of rows have scales of their own. Blocks of
/// normal numbers have nearly the same largest one, so a block's scale could be mistaken for another's.
[[nodiscard]] float size_in_block(std::int64_t row);

/// What is added to a normal sink logit of a row that sees up to `keys` keys: a sink as heavy as all of them together.
/// A smaller one would be lost among them.
[[nodiscard]] float sink_size(std::int64_t keys);

}  // namespace tilesmith
