// The pieces of sequences that differ in length, as one list that every block of threads works out for itself from the
// lengths: so nothing of it is known to the host, and a captured launch serves other lengths too.
//
// A sequence has as many pieces as its longest item, for every tile of rows and key head; a tile that sees fewer keys
// skips the rest. The order is that of sequences; within one, pieces, then heads, then tiles of rows.
#pragma once

#include "queue.cuh"

namespace ts {

struct SequenceWork {
  int items;       // tiles of rows, of all key heads
  int row_blocks;  // of one
  int begin, end;  // the keys that they see

  TS_DEVICE SequenceWork(const TsCudaDecodeArgs& args, int batch) {
    const Lengths length = item_of(args, batch, 0, 0).length;
    row_blocks = ceil_div(imax(0, length.q) * args.group, kTileM);
    items = row_blocks * static_cast<int>(args.heads_kv);
    begin = key_begin(args, length, 0);
    end = key_end(args, length, length.q - 1);
  }
  TS_DEVICE int pieces(const TsCudaDecodeArgs& args, int piece_tiles) const {
    return items * pieces_between(args, piece_tiles, begin, end);
  }
};

// The threads that walk the list together: all of a block, or one side of its roles.
struct WholeBlock {
  static constexpr int kThreads = ts::kThreads;
  TS_DEVICE static int thread() { return threadIdx.x; }
  TS_DEVICE static void sync() { __syncthreads(); }
  static constexpr bool kTakesFromQueue = false;
  static constexpr int kListOffset = ts::kListOffset;  // in shared memory, eight bytes for each warp
};

template <class Team>
class WorkList {
 public:
  struct Work {
    int batch;
    int place;  // within the sequence
  };

  // Threads take sequences side by side, and a scan over the threads gives each its place in the list.
  TS_DEVICE void start(const TsCudaDecodeArgs& args, u32 shared) {
    const int batch = static_cast<int>(args.batch), share = ceil_div(batch, Team::kThreads);
    first_batch_ = Team::thread() * share;
    end_batch_ = imin(batch, first_batch_ + share);
    piece_tiles_ = args.piece_tiles;
    if (args.wanted_pieces > 0)
      piece_tiles_ = imax(piece_tiles_, static_cast<int>((tiles_of_batch(args, shared) + args.wanted_pieces - 1) /
                                                         args.wanted_pieces));
    count_ = 0;
    for (int b = first_batch_; b < end_batch_; ++b) count_ += SequenceWork(args, b).pieces(args, piece_tiles_);
    int sum = count_;
    const int lane = Team::thread() & 31, warp = Team::thread() / 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += before;
    }
    if (lane == 31) asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + 4 * warp), "r"(sum) : "memory");
    Team::sync();
    total_ = 0;
    first_ = sum - count_;
#pragma unroll
    for (int w = 0; w < Team::kThreads / 32; ++w) {
      int of_warp;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(of_warp) : "r"(shared + 4 * w) : "memory");
      if (w < warp) first_ += of_warp;
      total_ += of_warp;
    }
    Team::sync();
  }

  TS_DEVICE int total() const { return total_; }
  TS_DEVICE int piece_tiles() const { return piece_tiles_; }

  // The thread that has the sequence tells the others.
  TS_DEVICE Work find(const TsCudaDecodeArgs& args, int number, u32 shared) const {
    if (number >= first_ && number < first_ + count_) {
      int rest = number - first_, b = first_batch_;
      for (; b < end_batch_; ++b) {
        const int count = SequenceWork(args, b).pieces(args, piece_tiles_);
        if (rest < count) break;
        rest -= count;
      }
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(b), "r"(rest) : "memory");
    }
    Team::sync();
    Work work;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(work.batch), "=r"(work.place) : "r"(shared) : "memory");
    Team::sync();
    return work;
  }

 private:
  // Blocks of keys of all items of the batch.
  TS_DEVICE i64 tiles_of_batch(const TsCudaDecodeArgs& args, u32 shared) const {
    i64 tiles = 0;
    for (int b = first_batch_; b < end_batch_; ++b) {
      const SequenceWork work(args, b);
      tiles += static_cast<i64>(work.items) * tiles_between(work.begin, work.end);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(0xffffffffu, tiles, step);
    const int warp = Team::thread() / 32;
    if (Team::thread() % 32 == 0)
      asm volatile("st.shared.b64 [%0], %1;" ::"r"(shared + 8 * warp), "l"(tiles) : "memory");
    Team::sync();
    tiles = 0;
#pragma unroll
    for (int w = 0; w < Team::kThreads / 32; ++w) {
      i64 of_warp;
      asm volatile("ld.shared.b64 %0, [%1];" : "=l"(of_warp) : "r"(shared + 8 * w) : "memory");
      tiles += of_warp;
    }
    Team::sync();
    return tiles;
  }

  int piece_tiles_;
  int first_batch_, end_batch_;  // the thread's sequences
  int first_, count_;            // its pieces
  int total_;
};

// Calls use(batch, key head, tile of rows, blocks of keys of a piece, piece) for every piece of the block of threads. An
// item may have fewer pieces than the number says.
template <class Team, class Use>
TS_DEVICE void each_piece(const TsCudaDecodeArgs& args, u32 shared, Use use) {
  if constexpr (kUneven) {
    WorkList<Team> list;
    list.start(args, shared + Team::kListOffset);
    each_of_queue<Team>(args, shared, list.total(), [&](int at) {
      const typename WorkList<Team>::Work work = list.find(args, at, shared + Team::kListOffset);
      const SequenceWork sequence(args, work.batch);
      const int tile = work.place % sequence.items;
      use(work.batch, tile / sequence.row_blocks, tile % sequence.row_blocks, list.piece_tiles(),
          work.place / sequence.items);
    });
  } else {
    const TensorPiece of_block(args);
    use(of_block.batch, of_block.head_kv, of_block.row_block, of_block.piece_tiles, of_block.number);
  }
}

}  // namespace ts
