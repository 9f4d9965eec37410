// Memory of the host for all outputs of a call.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/host_array.hpp"
#include "measure/measure.hpp"
#include "runtime/aligned_buffer.hpp"
#include "trial/call_memory.hpp"

namespace tilesmith {

class HostOutputs {
 public:
  /// Zeros where kernels combine their result with the one that is there, and where they leave rows out.
  explicit HostOutputs(std::vector<OutputSpec> specs);

  [[nodiscard]] std::span<const OutputSpec> specs() const { return specs_; }
  /// The memory of output `index`, from its first element to its last.
  [[nodiscard]] std::span<std::byte> memory(std::size_t index);
  /// An output as the array that users see; an empty one when the call has no such output.
  [[nodiscard]] HostArray array(std::string_view name) const;

  /// Adds the outputs to the memory of a call on the host.
  void add_to(CallMemory& memory);
  [[nodiscard]] std::vector<MemoryRange> ranges() const;

 private:
  std::vector<OutputSpec> specs_;
  std::vector<AlignedBuffer> buffers_;
};

}  // namespace tilesmith
