#include "dispatch/hip_split_memory.hpp"

#include <algorithm>
#include <utility>

namespace tilesmith {

Result<float*> HipSplitMemory::of(hip::Stream stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  TS_ASSIGN(const bool capturing, is_capturing(device_, stream));
  const auto found = std::ranges::find(streams_, stream, &Piece::stream);
  if (!capturing && found != streams_.end() && found->memory.bytes() >= bytes)
    return static_cast<float*>(found->memory.data());
  const HipCaptureRelaxed relaxed(device_.library());
  TS_ASSIGN(HipBuffer memory, HipBuffer::allocate(device_, bytes));
  auto* const data = static_cast<float*>(memory.data());
  if (capturing)
    kept_.push_back(std::move(memory));
  else if (found == streams_.end())
    streams_.push_back({stream, std::move(memory)});
  else
    kept_.push_back(std::exchange(found->memory, std::move(memory)));
  return data;
}

}  // namespace tilesmith
