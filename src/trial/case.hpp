// A case: one problem of an operation with data on the host. Each operation specialises Case for its row
// (problem/operations.hpp); trials, the engine of a sweep and `run` work on any case.
#pragma once

namespace tilesmith {

/// A specialisation has:
///
///   using Inputs = ...;  the run-time numbers of a call, and arrays that are given instead of random ones
///   using Plan = ...;    has `Status run(const Op::Arguments&, const RunOptions&) const`
///   static Result<Case> create(const Problem&, Inputs)
///   const Problem& problem() const                        with everything that follows from the data (alignment)
///   Status prepare(Dispatcher&)                           what is done once before the calls (packing B)
///   std::vector<NamedInput> inputs() const                every input a call reads
///   std::vector<OutputSpec> outputs() const               every output a call writes, dense; its result first
///   std::vector<OutputSpec> guarded_outputs(DeviceKind)   the same with gaps, as far as the device's kernels allow
///   Arguments arguments(const CallMemory&) const          a call on memory of the host or of a device
///   Result<std::unique_ptr<const Reference>> reference(unsigned threads = 0) const
///   Result<std::unique_ptr<const Reference>> sampled_reference(unsigned threads = 0) const
///                                                         where there is one: made sooner, for races
///   Status run_naive(unsigned threads) const              the naive computation; unsupported where there is none
///   double flops() const, bytes() const                   the work of a call, each tensor counted once
template <class Op>
class Case;

}  // namespace tilesmith
