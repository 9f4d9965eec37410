// Which page a key lies in, and which pages a sequence has (../../contract/paged_keys.h).
#pragma once

#include "../common/common.cuh"
#include "abi.h"

namespace ts {

// A length beyond the bound is cut to it.
TS_DEVICE int length_in_pages(const TsCudaAttentionArgs& args, int batch) {
  return imax(0, imin(static_cast<int>(args.seqlen_k), args.paged.lengths[batch]));
}

// The numbers of a sequence's pages; null: page `batch` has all its keys.
TS_DEVICE const int* numbers_of_pages(const TsCudaAttentionArgs& args, int batch) {
  if (args.paged.numbers == nullptr) return nullptr;
  return args.paged.numbers + (args.paged.offsets != nullptr ? args.paged.offsets[batch] : batch * args.paged.stride);
}
TS_DEVICE int page_number(const int* numbers, int batch, int page) {
  return numbers != nullptr ? __ldg(numbers + page) : batch;
}

TS_DEVICE int page_of(const TsCudaAttentionArgs& args, int key) {
  return static_cast<int>((__umulhi(key, args.page_multiplier) + key) >> args.page_shift);
}
TS_DEVICE int row_in_page(const TsCudaAttentionArgs& args, int key) {
  return key - page_of(args, key) * static_cast<int>(args.paged.page_size);
}

// Whether the copy engine takes keys and values.
TS_DEVICE bool comes_in_boxes(const TsCudaAttentionArgs& args) {
  return args.map_rows > 0;
}

// A number that is no page is not followed. The first page is read in its place, and the rows that are computed from it
// become NaN: nothing can be refused here.
TS_DEVICE bool is_page(const TsCudaAttentionArgs& args, int number) {
  return static_cast<u32>(number) < static_cast<u32>(args.num_pages);
}
TS_DEVICE int page_to_read(const TsCudaAttentionArgs& args, int number) {
  return is_page(args, number) ? number : 0;
}

}  // namespace ts
