// Integer sums that become int8 by operations on channels alone, in registers.

typedef signed char Quarter __attribute__((vector_size(16), aligned(1), may_alias));

// The transpose of four quarters of four words each, and in each quarter of four words of four bytes.
struct Turned {
  alignas(64) int words[kLanes] = {};
  alignas(64) signed char bytes[4 * kLanes] = {};

  constexpr Turned() {
    for (int q = 0; q < 4; ++q)
      for (int r = 0; r < 4; ++r) {
        words[4 * q + r] = 4 * r + q;
        for (int quarter = 0; quarter < 4; ++quarter) bytes[16 * quarter + 4 * q + r] = (signed char)(4 * r + q);
      }
  }
};
constexpr Turned kTurned;

struct ByteResults {
  const TsConvArgs& args;
  IVec words = load(kTurned.words);

  // Whether that is so. `step`: between channels of the result.
  static bool suit(const TsConvArgs& args, long long step) {
    bool suits = args.out_type == TS_INT8 && step == 1;
    for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && args.operations[i] != TS_END; ++i) {
      const auto operation = args.operations[i];
      suits = suits && (operation == TS_SCALE_N || operation == TS_RELU || operation == TS_CLAMP ||
                        (operation == TS_BIAS && args.bias_type == TS_FP32));
    }
    return suits;
  }

  // Of up to kResultLines pixels, whose sums are `apart` ints apart, `count` channels from `channel` on, which is
  // counted through the groups; to `at` bytes behind to[pixel].
  [[gnu::noinline]] void finish(const int* sums, long long apart, int pixels, long long channel, int count,
                                signed char* const* to, long long at) const {
    Sums x;
    static_assert(kResultLines == 8);
    change_each(x,
                [&](Vec, int p) { return __builtin_convertvector(load(sums + min_of(p, pixels - 1) * apart), Vec); });
    for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && args.operations[i] != TS_END; ++i) {
      const TsConvOperand& operand = args.operand[i];
      const auto of_channels = [&] {
        const float* const from = static_cast<const float*>(operand.data) + channel;
        if (count == kLanes) return load(from);
        float some[kLanes];
        read_part<kLanes>(from, count, some);
        return load(some);
      };
      if (args.operations[i] == TS_SCALE_N) {
        const Vec scale = of_channels();
        change_each(x, [&](Vec a, int) { return a * scale; });
      } else if (args.operations[i] == TS_BIAS) {
        const Vec bias = of_channels();
        change_each(x, [&](Vec a, int) { return a + bias; });
      } else if (args.operations[i] == TS_RELU) {
        change_each(x, [](Vec a, int) { return activate<Activation::relu>(a); });
      } else {
        change_each(x, [&](Vec a, int) { return clamped(a, operand); });
      }
    }
#pragma GCC unroll 2
    for (int half = 0; half < kResultLines; half += 4) {
      // Four pixels' bytes of four channels lie together in each quarter.
      const auto ints = [&](int p) { return rounded_for_bytes<IVec>(x[half + p]); };
      IVec low = ints(0), high = ints(2);
      asm("vpackssdw %1, %0, %0" : "+v"(low) : "v"(ints(1)));
      asm("vpackssdw %1, %0, %0" : "+v"(high) : "v"(ints(3)));
      asm("vpacksswb %1, %0, %0" : "+v"(low) : "v"(high));
      alignas(64) signed char bytes[4][16];
      *reinterpret_cast<IVec*>(bytes) = permuted(low, words);
      for (int p = 0; p < 4 && half + p < pixels; ++p) {
        signed char* const result = to[half + p] + at;
        if (count == kLanes)
          *reinterpret_cast<Quarter*>(result) = *reinterpret_cast<const Quarter*>(bytes[p]);
        else
          write_part<kLanes>(bytes[p], count, result);
      }
    }
  }

 private:
  static IVec permuted(IVec x, IVec from) {
    IVec y;
    asm("vpermd %1, %2, %0" : "=v"(y) : "v"(x), "v"(from));
    return y;
  }
};
