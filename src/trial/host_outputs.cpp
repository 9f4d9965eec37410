#include "trial/host_outputs.hpp"

#include <algorithm>
#include <utility>

namespace tilesmith {

HostOutputs::HostOutputs(std::vector<OutputSpec> specs) : specs_(std::move(specs)) {
  for (const OutputSpec& spec : specs_) {
    AlignedBuffer& buffer = buffers_.emplace_back(bytes_of(spec));
    if (spec.accumulates || spec.written) std::fill_n(buffer.data(), buffer.bytes(), std::byte{0});
  }
}

std::span<std::byte> HostOutputs::memory(std::size_t index) {
  return {buffers_[index].data(), bytes_of(specs_[index])};
}

HostArray HostOutputs::array(std::string_view name) const {
  const auto found = std::ranges::find(specs_, name, &OutputSpec::name);
  if (found == specs_.end()) return {};
  return to_array(*found, buffers_[static_cast<std::size_t>(found - specs_.begin())].data());
}

void HostOutputs::add_to(CallMemory& memory) {
  for (std::size_t i = 0; i < specs_.size(); ++i) memory.add_output(specs_[i], buffers_[i].data());
}

std::vector<MemoryRange> HostOutputs::ranges() const {
  std::vector<MemoryRange> ranges;
  for (std::size_t i = 0; i < specs_.size(); ++i) ranges.push_back({buffers_[i].data(), bytes_of(specs_[i])});
  return ranges;
}

}  // namespace tilesmith
