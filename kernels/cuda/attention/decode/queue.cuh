// The queue of a launch's pieces: a block of threads begins with the piece that has its own number, and takes the next
// one that nobody has taken whenever it is done. So blocks on SMs that read faster, or that had less to do, do more.
#pragma once

#include "pieces.cuh"

namespace ts {

template <class Team>
class PieceQueue {
 public:
  // The next piece of `total`; a number beyond them says that there is none. All threads of all teams ask.
  TS_DEVICE int next(const TsCudaDecodeArgs& args, u32 shared, int total) {
    int number = 0;
    if (Team::is_first_of_block()) {
      const int before = static_cast<int>(atomicAdd(args.queue, 1u));
      // Every block that had a piece asks until it gets none: so often, after its first, as there are pieces.
      if (before == total - 1) *args.queue = 0;
      number = static_cast<int>(gridDim.x) + before;
    }
    return Team::tell(shared, number, parity_);
  }

 private:
  u32 parity_ = 0;  // of the barriers that teams tell by
};

// Calls use(number) for every piece that the block has of `total`. Blocks that take nothing from the queue take turns.
template <class Team, class Use>
TS_DEVICE void each_of_queue(const TsCudaDecodeArgs& args, u32 shared, int total, Use use) {
  if constexpr (!Team::kTakesFromQueue) {
    for (int at = blockIdx.x; at < total; at += gridDim.x) use(at);
  } else {
    PieceQueue<Team> queue;
#pragma unroll 1
    for (int at = blockIdx.x; at < total; at = queue.next(args, shared, total)) {
      use(at);
      if (args.queue == nullptr) return;  // there are no more pieces than blocks
    }
  }
}

}  // namespace ts
