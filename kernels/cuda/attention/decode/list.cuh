// The pieces of sequences that differ in length, as one list that every block of threads works out for itself from the
// lengths: so nothing of it is known to the host, and a captured launch serves other lengths too.
//
// A sequence has as many pieces as its longest item, for every tile of rows and key head; a tile that sees fewer keys
// skips the rest. The order is that of sequences; within one, pieces, then heads, then tiles of rows.
#pragma once

#include "../../common/launch.cuh"
#include "queue.cuh"

namespace ts {

// A number that the launch before may still be writing: from L2, so that L1 keeps nothing that may be old.
TS_DEVICE int load_early(const int* from) {
  int number;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(number) : "l"(from) : "memory");
  return number;
}

// Keys of a sequence in pages, as item_of has them.
TS_DEVICE int bounded_length(const TsCudaDecodeArgs& args, int length) {
  return imax(0, imin(static_cast<int>(args.seqlen_k), length));
}

struct SequenceWork {
  int items;       // tiles of rows, of all key heads
  int row_blocks;  // of one
  int begin, end;  // the keys that they see

  TS_DEVICE SequenceWork(const TsCudaDecodeArgs& args, int batch)
      : SequenceWork(args, item_of(args, batch, 0, 0).length) {}
  TS_DEVICE SequenceWork(const TsCudaDecodeArgs& args, const Lengths& length) {
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
  TS_DEVICE static bool all(bool holds) { return __syncthreads_and(holds); }
  static constexpr bool kTakesFromQueue = cfg::kTakesFromQueue, kStartsEarly = ts::kStartsEarly, kClusters = false;
  TS_DEVICE static bool is_first_of_block() { return threadIdx.x == 0; }
  TS_DEVICE static int tell(u32 shared, int number, u32&) {
    const u32 place = shared + kListOffset;
    if (threadIdx.x == 0) asm volatile("st.shared.b32 [%0], %1;" ::"r"(place), "r"(number) : "memory");
    __syncthreads();
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(number) : "r"(place) : "memory");
    __syncthreads();
    return number;
  }
  static constexpr int kListOffset = ts::kListOffset;  // in shared memory, eight bytes for each warp
};

// Where a sequence's lengths come from: memory, or the one number of keys that the thread has looked at.
struct Loaded {
  TS_DEVICE Lengths operator()(const TsCudaDecodeArgs& args, int batch) const {
    return item_of(args, batch, 0, 0).length;
  }
};
struct Own {
  int keys;
  TS_DEVICE Lengths operator()(const TsCudaDecodeArgs& args, int) const {
    return {static_cast<int>(args.seqlen_q), keys};
  }
};

template <class Team>
class WorkList {
 public:
  struct Work {
    int batch;
    int place;  // within the sequence
  };

  // Threads take sequences side by side.
  TS_DEVICE explicit WorkList(const TsCudaDecodeArgs& args) {
    const int batch = static_cast<int>(args.batch), share = ceil_div(batch, Team::kThreads);
    first_batch_ = Team::thread() * share;
    end_batch_ = imin(batch, first_batch_ + share);
  }

  // Before the launch before has ended: most often lengths are then as they stay. Finds the block's first piece and has
  // L2 fetch the numbers of its pages. A thread has at most one sequence, or nothing is done; its length is returned.
  TS_DEVICE int start_early(const TsCudaDecodeArgs& args, u32 shared) {
    if (!can_start_early(args)) return 0;
    const int length =
        first_batch_ < end_batch_ ? bounded_length(args, load_early(args.paged.lengths + first_batch_)) : 0;
    if (start_and_find(args, shared, length)) prefetch_numbers(args, found(shared));
    return length;
  }
  // After it has ended: does what could not be done early, or does it again where a length is another.
  TS_DEVICE void make_sure(const TsCudaDecodeArgs& args, u32 shared, int early) {
    if (!can_start_early(args)) return start(args, shared, Loaded{});
    const int length = first_batch_ < end_batch_ ? bounded_length(args, args.paged.lengths[first_batch_]) : early;
    if (!Team::all(length == early)) start_and_find(args, shared, length);
  }
  // Whether the block's first piece has been found since.
  TS_DEVICE static bool has_found(const TsCudaDecodeArgs& args, int number) {
    return Team::kStartsEarly && can_start_early(args) && number == static_cast<int>(blockIdx.x);
  }
  // What the thread that found it has left there.
  TS_DEVICE static Work found(u32 shared) {
    Work work;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(work.batch), "=r"(work.place) : "r"(shared) : "memory");
    Team::sync();
    return work;
  }

  // A scan over the threads gives each its place in the list.
  template <class LengthsOf>
  TS_DEVICE void start(const TsCudaDecodeArgs& args, u32 shared, const LengthsOf& lengths) {
    piece_tiles_ = args.piece_tiles;
    if (Team::kClusters && args.cluster > 0) {  // all sequences have as many pieces: nothing need be read
      const int of_sequence = args.cluster * args.row_blocks * static_cast<int>(args.heads_kv);
      first_ = imin(first_batch_, static_cast<int>(args.batch)) * of_sequence;
      count_ = imax(0, end_batch_ - first_batch_) * of_sequence;
      total_ = gridDim.x;
      return;
    }
    if (args.wanted_pieces > 0) {
      const BatchTiles batch = tiles_of_batch(args, shared, lengths);
      const int wanted = batch.even && args.wanted_of_even > 0 ? args.wanted_of_even : args.wanted_pieces;
      piece_tiles_ = imax(piece_tiles_, static_cast<int>((batch.tiles + wanted - 1) / wanted));
    }
    // Of a queue long pieces go first: the last of them would begin late behind short ones. Then a thread has at most one
    // sequence, and sums have pieces of short ones in their upper half.
    const bool long_first = kLongFirst && args.long_first;
    int upper = 0;
    count_ = 0;
    for (int b = first_batch_; b < end_batch_; ++b) {
      const SequenceWork work(args, lengths(args, b));
      const int pieces = work.pieces(args, piece_tiles_);
      if (long_first && 2 * work.items * tiles_between(work.begin, work.end) <= piece_tiles_ * pieces) upper = kHalf;
      count_ += pieces;
    }
    u32 sum = static_cast<u32>(count_) << upper;
    const int lane = Team::thread() & 31, warp = Team::thread() / 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const u32 before = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += before;
    }
    if (lane == 31) asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + 4 * warp), "r"(sum) : "memory");
    Team::sync();
    u32 total = 0;
    sum -= static_cast<u32>(count_) << upper;
#pragma unroll
    for (int w = 0; w < Team::kThreads / 32; ++w) {
      u32 of_warp;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(of_warp) : "r"(shared + 4 * w) : "memory");
      if (w < warp) sum += of_warp;
      total += of_warp;
    }
    if (long_first) {
      constexpr u32 kLow = (1u << kHalf) - 1;
      sum = upper > 0 ? (total & kLow) + (sum >> kHalf) : sum & kLow;
      total = (total & kLow) + (total >> kHalf);
    }
    first_ = static_cast<int>(sum);
    total_ = static_cast<int>(total);
    Team::sync();
    if constexpr (Team::kTakesFromQueue && kLongestFirst) {
      if (args.long_first) begin_with_longest(shared);
    }
  }

  TS_DEVICE int total() const { return total_; }
  TS_DEVICE int piece_tiles() const { return piece_tiles_; }

  // The thread that has the sequence tells the others.
  template <class LengthsOf = Loaded>
  TS_DEVICE Work find(const TsCudaDecodeArgs& args, int number, u32 shared, const LengthsOf& lengths = {}) const {
    if (number >= first_ && number < first_ + count_) {
      int rest = number - first_, b = first_batch_;
      for (; b < end_batch_; ++b) {
        const int count = SequenceWork(args, lengths(args, b)).pieces(args, piece_tiles_);
        if (rest < count) break;
        rest -= count;
      }
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(b), "r"(rest) : "memory");
    }
    Team::sync();
    return found(shared);
  }

 private:
  static constexpr int kHalf = 16;  // bits of a sum

  TS_DEVICE static bool can_start_early(const TsCudaDecodeArgs& args) { return args.batch <= Team::kThreads; }

  // Where registers do not suffice for an order by length: a sequence that has pieces for most of the blocks goes first,
  // and those before it last. Behind others its last pieces would begin when theirs end.
  TS_DEVICE void begin_with_longest(u32 shared) {
    u32 most = static_cast<u32>(count_) << kHalf | static_cast<u32>(first_);
    asm volatile("redux.sync.max.u32 %0, %0, 0xffffffff;" : "+r"(most));
    if (Team::thread() % 32 == 0)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + Team::thread() / 8), "r"(most) : "memory");
    Team::sync();
#pragma unroll 1
    for (int w = 0; w < Team::kThreads / 32; ++w) {
      u32 of_warp;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(of_warp) : "r"(shared + 4 * w) : "memory");
      most = max(most, of_warp);
    }
    Team::sync();
    if (2 * (most >> kHalf) <= gridDim.x) return;
    const int begin = static_cast<int>(most & ((1u << kHalf) - 1));
    first_ += first_ < begin ? total_ - begin : -begin;
  }

  // Whether the block has a piece.
  TS_DEVICE bool start_and_find(const TsCudaDecodeArgs& args, u32 shared, int length) {
    start(args, shared, Own{length});
    const int number = static_cast<int>(blockIdx.x);
    if (number < total_) find(args, number, shared, Own{length});
    return number < total_;
  }

  // Of a table, where a sequence's numbers stand whatever the launch before does.
  TS_DEVICE void prefetch_numbers(const TsCudaDecodeArgs& args, const Work& work) const {
    constexpr int kNumbersOfLine = 32;
    if (args.paged.numbers == nullptr || args.paged.offsets != nullptr) return;
    Item item{work.batch};
    item.length = {static_cast<int>(args.seqlen_q), bounded_length(args, load_early(args.paged.lengths + work.batch))};
    const SequenceWork sequence(args, item.length);
    item.first_row = work.place % sequence.items % sequence.row_blocks * kTileM;
    const Piece piece = piece_of(args, item, piece_tiles_, work.place / sequence.items);
    const int begin = imax(piece.begin, piece.first_tile * kTileKeys);
    const int end = imin(piece.end, piece.end_tile * kTileKeys);
    const int page = page_of(args, begin) + kNumbersOfLine * Team::thread();
    if (begin < end && page <= page_of(args, end - 1))
      prefetch_line(args.paged.numbers + work.batch * args.paged.stride + page);
  }

  // Blocks of keys of all items of the batch, and whether all sequences have as many.
  struct BatchTiles {
    i64 tiles;
    bool even;
  };
  template <class LengthsOf>
  TS_DEVICE BatchTiles tiles_of_batch(const TsCudaDecodeArgs& args, u32 shared, const LengthsOf& lengths) const {
    i64 tiles = 0, of_sequence = 0;
    bool even = true;  // the thread's sequences
    for (int b = first_batch_; b < end_batch_; ++b) {
      const SequenceWork work(args, lengths(args, b));
      const i64 before = of_sequence;
      of_sequence = static_cast<i64>(work.items) * tiles_between(work.begin, work.end);
      tiles += of_sequence;
      even &= b == first_batch_ || of_sequence == before;
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
    if constexpr (!kFindsEven) {
      Team::sync();
      return {tiles, false};
    }
    even &= first_batch_ >= end_batch_ || of_sequence * args.batch == tiles;
    return {tiles, Team::all(even)};
  }

  int piece_tiles_;
  int first_batch_, end_batch_;  // the thread's sequences
  int first_, count_;            // its pieces
  int total_;
};

// Where a block's piece stands in the list: the blocks of a cluster have an item's.
template <class Team>
TS_DEVICE int place_of(const TsCudaDecodeArgs& args, int at) {
  if constexpr (!Team::kClusters) return at;
  if (args.cluster <= 1) return at;
  const int items = args.row_blocks * static_cast<int>(args.heads_kv), item = at / args.cluster;
  return (item / items * args.cluster + at % args.cluster) * items + item % items;
}

// Calls use as each_piece does, for the one piece that is the block's by its place in the grid.
template <class Use>
TS_DEVICE void piece_of_grid(const TsCudaDecodeArgs& args, Use use) {
  const TensorPiece of_block(args);
  use(of_block.batch, of_block.head_kv, of_block.row_block, of_block.piece_tiles, of_block.number);
}

// Calls use(batch, key head, tile of rows, blocks of keys of a piece, piece) for every piece of the block of threads. An
// item may have fewer pieces than the number says.
template <class Team, class Use>
TS_DEVICE void each_piece(const TsCudaDecodeArgs& args, u32 shared, Use use) {
  if (kUneven && has_clusters(args)) {
    if constexpr (Team::kStartsEarly) {
      wait_for_previous_kernel();
      if (args.end_tiles > 0) let_next_kernel_start();
    }
    piece_of_grid(args, use);
  } else if constexpr (kUneven) {
    const u32 memory = shared + Team::kListOffset;
    WorkList<Team> list(args);
    if constexpr (Team::kStartsEarly) {
      const int early = list.start_early(args, memory);
      wait_for_previous_kernel();
      if (args.end_tiles > 0) let_next_kernel_start();
      list.make_sure(args, memory, early);
    } else {
      list.start(args, memory, Loaded{});
    }
    each_of_queue<Team>(args, shared, list.total(), [&](int at) {
      const auto work = list.has_found(args, at) ? list.found(memory) : list.find(args, place_of<Team>(args, at), memory);
      const SequenceWork sequence(args, work.batch);
      const int tile = work.place % sequence.items;
      use(work.batch, tile / sequence.row_blocks, tile % sequence.row_blocks, list.piece_tiles(),
          work.place / sequence.items);
    });
  } else {
    piece_of_grid(args, use);
  }
}

}  // namespace ts
