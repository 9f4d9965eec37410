#include "bench/cuda_trial.hpp"

#include <cmath>

namespace tilesmith {

Result<std::unique_ptr<Trial>> CudaTrial::create(const AttentionCase& problem_case, int device_index) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index));
  const CudaCurrent current(*context);
  TS_TRY(current.status());
  TS_ASSIGN(CudaStream stream, CudaStream::create(*context));
  std::unique_ptr<CudaTrial> trial(new CudaTrial(problem_case, *context, std::move(stream)));
  TS_TRY(trial->upload());
  return trial;
}

Status CudaTrial::upload() {
  for (const MemoryRange& range : case_.inputs()) {
    if (range.bytes == 0) continue;
    TS_ASSIGN(CudaBuffer copy, CudaBuffer::allocate(context_, range.bytes));
    TS_TRY(copy_to_device(context_, copy.data(), range.data, range.bytes, stream_.handle()));
    inputs_.emplace(range.data, std::move(copy));
  }
  return stream_.synchronize();
}

AttentionArguments CudaTrial::arguments() const {
  AttentionOutputs none;
  AttentionArguments a = case_.arguments(none);
  const auto move = [&]<class T>(const T*& pointer) {
    const auto found = inputs_.find(pointer);
    pointer = found == inputs_.end() ? nullptr : static_cast<const T*>(found->second.data());
  };
  move(a.q);
  move(a.k);
  move(a.v);
  move(a.bias);
  move(a.alibi);
  move(a.sink);
  move(a.cu_seqlens_q);
  move(a.cu_seqlens_k);
  move(a.q_scale.data);
  move(a.k_scale.data);
  move(a.v_scale.data);
  return a;
}

Status CudaTrial::run(const AttentionPlan& plan, AttentionOutputs& outputs) {
  const CudaCurrent current(context_);
  TS_TRY(current.status());
  TS_ASSIGN(const CudaBuffer o, CudaBuffer::allocate(context_, outputs.o.bytes()));
  TS_ASSIGN(const CudaBuffer lse, CudaBuffer::allocate(context_, outputs.lse.size() * sizeof(float)));
  AttentionArguments a = arguments();
  a.o = o.data();
  a.lse = static_cast<float*>(lse.data());
  TS_TRY(plan.run(a, {.stream = stream_.handle()}));
  TS_TRY(copy_to_host(context_, outputs.o.data(), o.data(), o.bytes(), stream_.handle()));
  TS_TRY(copy_to_host(context_, outputs.lse.data(), lse.data(), lse.bytes(), stream_.handle()));
  return stream_.synchronize();
}

Result<Verdict> CudaTrial::verify(const AttentionPlan& plan, const AttentionExpectation& expectation) {
  const CudaCurrent current(context_);
  TS_TRY(current.status());
  return verify_guarded(case_, expectation, [&](GuardedBuffer& o, GuardedBuffer& lse) -> Status {
    // The red zones travel with the tensors: what a kernel writes there comes back.
    AttentionArguments a = arguments();
    CudaBuffer on_device[2];
    GuardedBuffer* const buffers[2] = {&o, &lse};
    for (int i = 0; i < 2; ++i) {
      const std::span<std::byte> storage = buffers[i]->storage();
      TS_ASSIGN(on_device[i], CudaBuffer::allocate(context_, storage.size()));
      TS_TRY(copy_to_device(context_, on_device[i].data(), storage.data(), storage.size(), stream_.handle()));
    }
    a.o = static_cast<std::byte*>(on_device[0].data()) + o.offset();
    a.lse = case_.problem().lse ? reinterpret_cast<float*>(static_cast<std::byte*>(on_device[1].data()) + lse.offset())
                                : nullptr;
    TS_TRY(plan.run(a, {.stream = stream_.handle()}));
    for (int i = 0; i < 2; ++i) {
      const std::span<std::byte> storage = buffers[i]->storage();
      TS_TRY(copy_to_host(context_, storage.data(), on_device[i].data(), storage.size(), stream_.handle()));
    }
    return stream_.synchronize();
  });
}

Result<TrialTiming> CudaTrial::time(const AttentionPlan& plan, const MeasureOptions& options) {
  const CudaCurrent current(context_);
  TS_TRY(current.status());
  const AttentionOutputs sizes = case_.make_outputs();
  TS_ASSIGN(const CudaBuffer o, CudaBuffer::allocate(context_, sizes.o.bytes()));
  TS_ASSIGN(const CudaBuffer lse, CudaBuffer::allocate(context_, sizes.lse.size() * sizeof(float)));
  AttentionArguments a = arguments();
  a.o = o.data();
  a.lse = static_cast<float*>(lse.data());
  TS_ASSIGN(const CudaTimer timer, CudaTimer::create(context_));
  TS_ASSIGN(const Timing timing,
            timer.measure(
                stream_.handle(), [&] { return plan.run(a, {.stream = stream_.handle()}); }, options));
  return trial_timing(timing, case_.flops(), case_.bytes());
}

}  // namespace tilesmith
