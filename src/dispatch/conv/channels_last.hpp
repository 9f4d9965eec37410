// CPU kernels read vectors of channels. Tensors whose channels are no neighbours are copied so, once for each call,
// before a kernel meets their elements: it would gather each for every tap.
#pragma once

#include <cstddef>

#include "runtime/cpu/thread_team.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// Bytes of the copies of a call, where the channels of all tensors that it reads are apart.
[[nodiscard]] std::size_t channels_last_bytes(const ConvProblem& problem, bool reads_w);

/// The arguments of a call that is not empty, with copies in place of those of x, w and y that are read and whose
/// channels are evenly apart, but not neighbours. The team makes them in `memory`, of channels_last_bytes().
/// `reads_w`: w is a tensor of filters.
[[nodiscard]] ConvArguments with_channels_last(const ConvProblem& problem, const ConvArguments& arguments, bool reads_w,
                                               const ThreadTeam& team, void* memory);

}  // namespace tilesmith
