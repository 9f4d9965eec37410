// What trials on a CUDA device share: a stream, copies of a case's inputs, guarded outputs that travel there and back.
#pragma once

#include <map>
#include <span>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/cuda.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith {

/// The calls below need the context to be the thread's current one: CudaCurrent.
class CudaBench {
 public:
  /// Copies the inputs. Errors: out_of_memory.
  [[nodiscard]] static Result<CudaBench> create(const CudaContext& context, std::span<const MemoryRange> inputs);

  [[nodiscard]] const CudaContext& context() const { return *context_; }
  [[nodiscard]] cu::Stream stream() const { return stream_.handle(); }
  [[nodiscard]] Status synchronize() const { return stream_.synchronize(); }

  /// From the host's address of an input to that of its copy; null when there is none.
  template <class T>
  void move(const T*& address) const {
    const auto found = inputs_.find(address);
    address = found == inputs_.end() ? nullptr : static_cast<const T*>(found->second.data());
  }

  [[nodiscard]] Result<CudaBuffer> allocate(std::size_t bytes) const { return CudaBuffer::allocate(*context_, bytes); }

  /// Lets `run` queue work on copies of the buffers, whose tensors it is given in their order, and brings back what the
  /// work left in them. The red zones travel with the tensors: what a kernel writes there comes back.
  [[nodiscard]] Status run_guarded(std::span<GuardedBuffer* const> buffers,
                                   FunctionRef<Status(std::span<std::byte* const> tensors)> run) const;

  [[nodiscard]] Result<Timing> time(FunctionRef<Status()> enqueue, const MeasureOptions& options) const;

 private:
  CudaBench(const CudaContext& context, CudaStream stream) : context_(&context), stream_(std::move(stream)) {}

  const CudaContext* context_;
  CudaStream stream_;
  std::map<const void*, CudaBuffer> inputs_;  ///< by the host's address
};

}  // namespace tilesmith
