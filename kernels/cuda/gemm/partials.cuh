// Split k: every team that works on a tile writes its partial sums to memory, and the team that is last adds all
// partials in a fixed order, so that the result does not depend on which team that was. No team waits for another.
//
// With kSplitKAtomic partials are added in memory as they are ready, to sums that were zero. Their order, and so the
// rounding, may differ from run to run; in exchange the last team reads one partial instead of all.
#pragma once

#include "../common/came_last.cuh"
#include "types.cuh"

namespace ts::gemm {

// Typed as the sums are: a change of type is a copy that ptxas sees among the wgmma in flight (C7514).
TS_DEVICE void store_sums(float* p, const float* s) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3])
               : "memory");
}
TS_DEVICE void store_sums(float* p, const int* s) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3])
               : "memory");
}

TS_DEVICE void add_sums(float* p, const float* s) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(s[0]), "f"(s[1]), "f"(s[2]),
               "f"(s[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i)
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p + i), "f"(s[i]) : "memory");
#endif
}
TS_DEVICE void add_sums(float* p, const int* s) {
  for (int i = 0; i < 4; ++i)
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(p + i), "r"(s[i]) : "memory");
}
TS_DEVICE void clear_sums(float* p) {
  asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(0) : "memory");
}

// Writes the thread's sums of the blocks that are `wanted` to a partial, whose place of the thread is `to`:
// [block][sum / 4][thread][4].
template <int kThreads, int kBlocks, int kSums>
TS_DEVICE void leave_partial(float* to, u32 wanted, const Sum (&sums)[kBlocks][kSums]) {
  static_assert(kSums % 4 == 0, "sums are moved four at a time");
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (wanted >> block & 1) {
      float* const p = to + block * kThreads * kSums;
#pragma unroll
      for (int i = 0; i < kSums; i += 4) store_sums(p + i * kThreads, &sums[block][i]);
    }
  }
}

// True when this team of kThreads threads was the last of the `count` that share a unit (a tile, or a warpgroup's rows
// of one); `sums` then hold the whole. This team's partial is number `own`; place_of(number) says which place in
// args.partials a partial has, and `counter` counts the partials that are there. Bit i of `wanted` says whether the
// warp has rows in block i; nothing is read or written for other blocks. `sync` is a barrier of the team; `flag` 4
// bytes of shared memory for it.
template <int kThreads, int kKept = 64, int kBlocks, int kSums, class Args, class PlaceOf, class Sync>
TS_DEVICE bool join_partials(const Args& args, u32* counter, int count, int own, PlaceOf place_of, int thread,
                          u32 wanted, u32 flag, Sync sync, Sum (&sums)[kBlocks][kSums]) {
  constexpr bool kKeep = kBlocks * kSums <= kKept;  // the own sums stay in registers; larger ones are read back
  constexpr int kPart = kThreads * kBlocks * kSums;
  const auto part_at = [&](int part) { return args.partials + static_cast<i64>(place_of(part)) * kPart + thread * 4; };
  leave_partial<kThreads>(part_at(own), wanted, sums);
  if (!came_last(counter, count, thread, flag, sync)) return false;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (!(wanted >> block & 1)) continue;
    Sum total[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] = 0;
    for (int part = 0; part < count; ++part) {
      if (kKeep && part == own) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] += sums[block][i];
        continue;
      }
      const float* const from = part_at(part) + block * kThreads * kSums;
      u32 loaded[kSums / 4][4];
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i)
        load_chunk_uncached(loaded[i], from + i * 4 * kThreads);
#pragma unroll
      for (int i = 0; i < kSums; ++i) total[i] += sum_of_bits(loaded[i / 4][i % 4]);
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[block][i] = total[i];
  }
  return true;
}

// The same where a team has few sums of each partial: those of several are asked for together, or the way to memory and
// back would decide.
template <int kThreads, int kBlocks, int kSums, class Args, class PlaceOf, class Sync>
TS_DEVICE bool join_few_sums(const Args& args, u32* counter, int count, int own, PlaceOf place_of, int thread,
                             u32 wanted, u32 flag, Sync sync, Sum (&sums)[kBlocks][kSums]) {
  constexpr int kTogether = kSums >= 32 ? 1 : 32 / kSums;
  const auto place = [&](int part) {
    return args.partials + static_cast<i64>(place_of(part)) * (kThreads * kBlocks * kSums) + thread * 4;
  };
  leave_partial<kThreads>(place(own), wanted, sums);
  if (!came_last(counter, count, thread, flag, sync)) return false;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (!(wanted >> block & 1)) continue;
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[block][i] = 0;
#pragma unroll 1
    for (int first = 0; first < count; first += kTogether) {
      u32 loaded[kTogether][kSums / 4][4] = {};
#pragma unroll
      for (int at = 0; at < kTogether; ++at) {
        const float* const from = place(imin(first + at, count - 1)) + block * kThreads * kSums;
#pragma unroll
        for (int i = 0; i < kSums / 4; ++i) load_chunk_uncached(loaded[at][i], from + i * 4 * kThreads);
      }
#pragma unroll
      for (int at = 0; at < kTogether; ++at) {
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          sums[block][i] += first + at < count ? sum_of_bits(loaded[at][i / 4][i % 4]) : Sum{0};
      }
    }
  }
  return true;
}

// The same in two rounds, where one team would read too many partials for the others' patience: neighbouring ones are
// added in up to kGroups groups, then the groups. `counters` are 1 + kGroups.
template <int kThreads, int kGroups, int kKept = 64, int kBlocks, int kSums, class Args, class PlaceOf, class Sync>
TS_DEVICE bool join_in_groups(const Args& args, u32* counters, int count, int own, PlaceOf place_of, int thread,
                              u32 wanted, u32 flag, Sync sync, Sum (&sums)[kBlocks][kSums]) {
  const int size = ceil_div(count, kGroups), group = own / size, first = group * size;
  const auto in_group = [&](int part) { return place_of(first + part); };
  const auto of_groups = [&](int part) { return place_of(part * size); };
  if (size > 1 && !join_partials<kThreads, kKept>(args, counters + 1 + group, imin(size, count - first), own - first,
                                                  in_group, thread, wanted, flag, sync, sums))
    return false;
  return join_partials<kThreads, kKept>(args, counters, ceil_div(count, size), group, of_groups, thread, wanted, flag,
                                        sync, sums);
}

// The same with a loop, so that the text of a round is there once. A tile of convolution's stream-K spills with it (128
// x 128, 16 bytes, ptxas 13.0); none that splits k does.
template <int kThreads, int kGroups, int kKept = 64, int kBlocks, int kSums, class Args, class PlaceOf, class Sync>
TS_DEVICE bool join_in_rounds(const Args& args, u32* counters, int count, int own, PlaceOf place_of, int thread,
                              u32 wanted, u32 flag, Sync sync, Sum (&sums)[kBlocks][kSums]) {
  const int size = ceil_div(count, kGroups), group = own / size, first = group * size;
#pragma unroll 1
  for (int round = size > 1 ? 0 : 1; round < 2; ++round) {
    const bool within = round == 0;
    const auto place = [&](int part) { return place_of(within ? first + part : part * size); };
    if (!join_partials<kThreads, kKept>(args, within ? counters + 1 + group : counters,
                                        within ? imin(size, count - first) : ceil_div(count, size),
                                        within ? own - first : group, place, thread, wanted, flag, sync, sums))
      return false;
  }
  return true;
}

// The same for args.splits partials that are added up at place `unit`, which the last team leaves zero.
template <int kThreads, int kBlocks, int kSums, class Args, class Sync>
TS_DEVICE bool add_partials(const Args& args, int unit, int thread, u32 wanted, u32 flag, Sync sync,
                         Sum (&sums)[kBlocks][kSums]) {
  static_assert(kSums % 4 == 0, "sums are moved four at a time");
  float* const place = args.partials + static_cast<i64>(unit) * (kThreads * kBlocks * kSums) + thread * 4;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (wanted >> block & 1) {
      float* const p = place + block * kThreads * kSums;
#pragma unroll
      for (int i = 0; i < kSums; i += 4) add_sums(p + i * kThreads, &sums[block][i]);
    }
  }
  if (!came_last(args.counters + unit, args.splits, thread, flag, sync)) return false;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (!(wanted >> block & 1)) continue;
    float* const p = place + block * kThreads * kSums;
    u32 loaded[kSums / 4][4];
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i)
      load_chunk_uncached(loaded[i], p + i * 4 * kThreads);
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[block][i] = sum_of_bits(loaded[i / 4][i % 4]);
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i)
      clear_sums(p + i * 4 * kThreads);
  }
  return true;
}

// The same for args.splits partials, whose places follow each other, or that are added up in one place.
template <int kThreads, int kKept = 64, int kBlocks, int kSums, class Args, class Sync>
TS_DEVICE bool join_partials(const Args& args, int unit, int own, int thread, u32 wanted, u32 flag, Sync sync,
                          Sum (&sums)[kBlocks][kSums]) {
  if constexpr (cfg::kSplitKAtomic) return add_partials<kThreads>(args, unit, thread, wanted, flag, sync, sums);
  return join_partials<kThreads, kKept>(
      args, args.counters + unit, args.splits, own, [&](int part) { return unit * args.splits + part; }, thread, wanted,
      flag, sync, sums);
}

}  // namespace ts::gemm
