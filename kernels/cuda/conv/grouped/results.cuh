// What forward and backward data of groups of a few channels read and write beside pixels: weights, the epilogue's
// operands, and results.
#pragma once

#include "../../gemm/epilogue.cuh"
#include "../store.cuh"
#include "octets.cuh"

namespace ts::conv {

// d += a x b of 16 rows, 8 columns and 8 of k.
TS_DEVICE void multiply_add_octet(float (&d)[4], u32 a0, u32 a1, u32 b) {
  if constexpr (cfg::kTypeA == TS_GEMM_BF16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
  } else {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
  }
}

// The filters of a block's groups in shared memory, as the tensor cores take them: [tap][sixteen that is summed][pair of
// octets][lane][word]. A word has two neighbours along the channels that are summed, of one channel of the result; zeros
// where these are of two groups.
constexpr int kWeightWords = cfg::kChannels >= 16 ? 4 : 2;  // of a lane, for a tap and a sixteen
constexpr int kSixteenBytes = kPairsOfOctets * 32 * 4 * kWeightWords, kTapBytes = kDepth * kSixteenBytes;

struct GroupWeights {
  static constexpr int kOwners = kPairsOfOctets * 32;
  static_assert(kThreads % kOwners == 0);

  const TsCudaConvArgs& args;
  const char* base;
  int channels;   // of the block that exist
  i64 step;       // from one tap to the next
  i64 next;       // from one of a word's channels to the other
  bool together;  // neighbours along a filter's c are four bytes that can be loaded at once

  TS_DEVICE GroupWeights(const TsCudaConvArgs& of, int first_channel) : args(of) {
    const TsConvStrides& s = of.w_strides;
    base = static_cast<const char*>(of.w) + first_channel / cfg::kChannels * s.group * kElementBytes;
    channels = static_cast<int>(of.groups) * cfg::kChannels - first_channel;
    step = of.filter[2] > 1 ? s.spatial[2] : of.filter[1] > 1 ? s.spatial[1] : s.spatial[0];
    next = kForward ? s.channel : s.batch;
    const i64 steps = s.group | s.batch | step;
    together = s.channel == 1 && ((reinterpret_cast<u64>(base) | steps * kElementBytes) & 3) == 0;
  }

  // Where channels `in` and in + 1 and channel `out` of the block begin, at the first tap; null where they are none.
  TS_DEVICE const char* place_of(int in, int out) const {
    const TsConvStrides& s = args.w_strides;
    const int group = out / cfg::kChannels;
    if (in / cfg::kChannels != group || out >= channels) return nullptr;
    const int k = (kForward ? out : in) % cfg::kChannels, c = (kForward ? in : out) % cfg::kChannels;
    return base + (group * s.group + k * s.batch + c * s.channel) * kElementBytes;
  }

  // kFours: of groups of 16 and more a lane's columns of both octets are four neighbouring channels. kLast: by the last
  // kOwners threads alone, where the first ones have something else to do.
  template <bool kFours = false, bool kLast = false>
  TS_DEVICE void load(unsigned char* to) const {
    const int thread = static_cast<int>(threadIdx.x) - (kLast ? kThreads - kOwners : 0);
    if (thread < 0) return;
    constexpr int kLoaders = kLast ? kOwners : kThreads;
    together ? load<kFours, true, kLoaders>(to, thread) : load<kFours, false, kLoaders>(to, thread);
  }
  template <bool kFours, bool kTogether, int kLoaders>
  TS_DEVICE void load(unsigned char* to, int thread) const {
    const int own = thread % kOwners, l = own % 32, octets = own / 32;
    const int taps = static_cast<int>(args.filter[0] * args.filter[1] * args.filter[2]);
    constexpr int kPieces = kTogether ? 1 : 2, kApart = kLoaders / kOwners;  // taps of a thread
    constexpr int kAtATime = kTogether && kApart == 1 ? 9 : 3;
    // Backward data sums along k: lanes of neighbouring columns, four apart, load one of a word's channels each, of both
    // columns, and exchange halves.
    constexpr bool kExchanged = kTogether && !kForward;
    const i64 tap_bytes = step * kElementBytes, next_bytes = next * kElementBytes;
#pragma unroll 1
    for (int sixteen = 0; sixteen < kDepth; ++sixteen) {
      const char* from[kWeightWords];
#pragma unroll
      for (int word = 0; word < kWeightWords; ++word) {
        // Groups of 16 and more: columns of octet word / 2, channels of octet word % 2. Others: of both octet `word`.
        const int octet_out = kWeightWords == 4 ? word / 2 : word, octet_in = kWeightWords == 4 ? word % 2 : word;
        const int column = l / 4, of_both = kFours ? column / 2 * 4 + 2 * octet_out + column % 2 : 8 * octet_out + column;
        const int in = 16 * (octets / kDepth * kDepth + sixteen) + 8 * octet_in + 2 * (l % 4), out = 16 * octets + of_both;
        from[word] = kExchanged ? place_of(in + column % 2, out - column % 2) : place_of(in, out);
      }
      unsigned char* const own_words = to + sixteen * kSixteenBytes + own * 4 * kWeightWords;
#pragma unroll 1
      for (int first = thread / kOwners; first < taps; first += kAtATime * kApart) {
        u32 pieces[kAtATime][kWeightWords][kPieces] = {};
#pragma unroll
        for (int t = 0; t < kAtATime; ++t) {
#pragma unroll
          for (int e = 0; e < kWeightWords * kPieces; ++e) {
            const char* const p = from[e / kPieces];
            if (p != nullptr && first + t * kApart < taps)
              pieces[t][e / kPieces][e % kPieces] =
                  piece<kTogether>(p + (first + t * kApart) * tap_bytes + e % kPieces * next_bytes);
          }
        }
#pragma unroll
        for (int t = 0; t < kAtATime; ++t) {
          if (first + t * kApart >= taps) continue;
          unsigned char* const into = own_words + (first + t * kApart) * kTapBytes;
          u32 words[kWeightWords];
#pragma unroll
          for (int word = 0; word < kWeightWords; ++word)
            words[word] = kExchanged ? exchanged(pieces[t][word][0])
                                     : pieces[t][word][0] | (kTogether ? 0 : pieces[t][word][kPieces - 1] << 16);
          if constexpr (kWeightWords == 4)
            *reinterpret_cast<uint4*>(into) = make_uint4(words[0], words[1], words[2], words[3]);
          else
            *reinterpret_cast<uint2*>(into) = make_uint2(words[0], words[1]);
        }
      }
    }
  }
  static TS_DEVICE u32 exchanged(u32 own) {
    const u32 other = __shfl_xor_sync(0xffffffffu, own, 4);
    return threadIdx.x & 4 ? __byte_perm(other, own, 0x7632) : __byte_perm(own, other, 0x5410);
  }
  // Not by load_bits, whose order the compiler keeps: a load would wait for the one before.
  template <bool kTogether>
  static TS_DEVICE u32 piece(const char* p) {
    return kTogether ? *reinterpret_cast<const u32*>(p) : *reinterpret_cast<const unsigned short*>(p);
  }

  // Channels `in` and in + 1 of a tap, for channel `out`, from memory.
  TS_DEVICE void two_of(int tap, int in, int out, float& low, float& high) const {
    const char* const from = place_of(in, out) + tap * step * kElementBytes;
    Pair<cfg::kTypeB> both;
    both.words[0] = piece<false>(from) | piece<false>(from + next * kElementBytes) << 16;
    unpack<cfg::kTypeB>(both, low, high);
  }

  // A lane's words of a tap and a sixteen.
  static TS_DEVICE void words_of(const unsigned char* weights, int tap, u32 (&w)[kWeightWords], int sixteen = 0) {
    const unsigned char* const from =
        weights + tap * kTapBytes + sixteen * kSixteenBytes + (pair() * 32 + lane()) * 4 * kWeightWords;
    if constexpr (kWeightWords == 4) {
      const uint4 words = *reinterpret_cast<const uint4*>(from);
      w[0] = words.x, w[1] = words.y, w[2] = words.z, w[3] = words.w;
    } else {
      const uint2 words = *reinterpret_cast<const uint2*>(from);
      w[0] = words.x, w[1] = words.y;
    }
  }
};

// A result's pixel, as gemm/epilogue.cuh asks for places: one row.
struct ResultPlace {
  int row, column;  // column: a channel of all groups
  int row_limit, column_limit;
  int image, at[3];

  TS_DEVICE i64 offset(const TsConvStrides& s) const {
    return image * s.batch + at[0] * s.spatial[0] + at[1] * s.spatial[1] + at[2] * s.spatial[2];
  }
  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int, int channel) const { return offset(o.strides) + channel; }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 1; }
};

// The results of a warp's two octets. A lane has two neighbouring channels of either: v[0] and v[1], v[4] and v[5].
struct GroupResults {
  const TsCudaConvArgs& args;
  int first_channel;  // of the block

  TS_DEVICE int all_channels() const { return static_cast<int>(args.groups) * cfg::kChannels; }
  TS_DEVICE int channel() const { return first_channel + 16 * pair() + 2 * (lane() & 3); }

  TS_DEVICE void apply_epilogue(const Step& s, int row, int column, bool there, float (&v)[8]) const {
    if constexpr (cfg::kEpilogueLength > 0) {
      v[2] = v[3] = v[6] = v[7] = 0.0f;
      const ResultPlace place{0,
                              channel(),
                              there ? 1 : 0,
                              all_channels(),
                              s.image,
                              {s.at[0], s.at[1] + row * s.apart[1], s.at[2] + column * s.apart[2]}};
      Operands<0, 16> operands;
      operands.load(args, place);
      operands.apply(args, place, v, {});
    }
  }

  // One pixel, whose elements begin at `pixel`; of 16 bits, lanes exchange theirs for four of one octet.
  TS_DEVICE void store(i64 pixel, bool there, const float (&v)[8]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    char* const out = static_cast<char*>(args.out);
    if constexpr (kBytes == 2) {
      u32 first = pack_pair<cfg::kTypeD>(v[0], v[1]).words[0], second = pack_pair<cfg::kTypeD>(v[4], v[5]).words[0];
      pair_exchange(first, second);
      const int at = channel() - 2 * (lane() & 3) + 8 * (lane() & 1) + 4 * (lane() >> 1 & 1);
      if (there && at < all_channels()) store_8_bytes(out + (pixel + at) * kBytes, first, second);
    } else {
#pragma unroll
      for (int o = 0; o < 2; ++o)
        store_pair<cfg::kTypeD, true>(out + (pixel + channel() + 8 * o) * kBytes,
                                      pack_pair<cfg::kTypeD>(v[4 * o], v[4 * o + 1]),
                                      there ? all_channels() - channel() - 8 * o : 0);
    }
  }

  // One pixel of four neighbouring channels: those that GroupWeights::load<true> gives a lane.
  TS_DEVICE void store_four(i64 pixel, bool there, const float (&v)[8]) const {
    const int at = first_channel + 16 * pair() + 4 * (lane() & 3);
    if (there && at < all_channels())
      store_8_bytes(static_cast<char*>(args.out) + (pixel + at) * bytes_of(cfg::kTypeD),
                    pack_pair<cfg::kTypeD>(v[0], v[1]).words[0], pack_pair<cfg::kTypeD>(v[4], v[5]).words[0]);
  }

  // Two pixels that are `apart`; of 16 bits a lane stores an octet of one.
  TS_DEVICE void store_two(i64 pixel, i64 apart, bool first_there, bool second_there, const float (&v)[2][8]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    if constexpr (kBytes == 2) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack_pair<cfg::kTypeD>(v[i / 2][i % 2 * 4], v[i / 2][i % 2 * 4 + 1]).words[0];
      exchange_octets(words);
      const bool second = lane() & 2;
      const int at = first_channel + 16 * pair() + 8 * (lane() & 1);
      if ((second ? second_there : first_there) && at < all_channels())
        store_16_bytes(static_cast<char*>(args.out) + (pixel + (second ? apart : 0) + at) * kBytes, words);
    } else {
      store(pixel, first_there, v[0]);
      store(pixel + apart, second_there, v[1]);
    }
  }
};

}  // namespace ts::conv
