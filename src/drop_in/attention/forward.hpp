// Attention forward on dense tensors and on pages: what run_fwd, run_splitkv, run_pagedkv and run_batch_prefill do
// alike.
#pragma once

#include "drop_in/attention/traits.hpp"

namespace tilesmith::drop_in {

/// How a head's keys and values lie in a page: tokens behind one another, or by chunks of 16 bytes, of k along the
/// dimension, of v along the tokens.
enum class PageLayout : bool { rows, vectorized };

struct ForwardCall {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  AttentionSizes sizes;
  float scale;
  AttentionFeatures features{};
  int v_is_rows = 1;
  AttentionLayout layout = AttentionLayout::bhsd;  ///< of q and o; without pages of k and v too
  int splits = 0;                                  ///< as the caller wants it; 0: as the model has it
  int page_size = 0;                               ///< 0: k and v have no pages
  PageLayout page_layout = PageLayout::rows;
  bool page_list = false;  ///< one list of pages instead of a table
};

/// What the C function `name` returns. `milliseconds` may be null.
[[nodiscard]] int run_forward(std::string_view name, const ForwardCall& call, float* milliseconds);

}  // namespace tilesmith::drop_in
