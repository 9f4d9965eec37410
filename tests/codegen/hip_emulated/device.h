// kernels/hip/common/device.h for a CPU: a block's threads are fibers of one thread, which change at barriers and at
// matrix instructions. It takes the place of that file when a template is flattened for a test. Its includes stand
// before the flattened text.
#pragma once

#define TS_DEVICE inline
#define TS_LDS
#define TS_LDS_ARRAY static
// The exported entry launches `blocks` blocks, one after another; the kernel itself is its overload.
#define TS_KERNEL(threads, waves)                                                                      \
  static void TS_ENTRY(const TS_ARGS args);                                                            \
  extern "C" __attribute__((visibility("default"))) void TS_ENTRY(const void* args, int blocks) {      \
    ts::emulated::Block::launch(threads, blocks, [](const void* a) { TS_ENTRY(*static_cast<const TS_ARGS*>(a)); }, \
                                args);                                                                 \
  }                                                                                                    \
  static void

namespace ts {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;
typedef u32 Words4 __attribute__((vector_size(16)));

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_inff();

namespace emulated {

constexpr int kMostWaves = 1024 / cfg::kLanes;

// The block that runs, its threads as fibers.
class Block {
 public:
  using Kernel = void (*)(const void* args);

  static void launch(int threads, int blocks, Kernel kernel, const void* args) {
    Block block(threads, kernel, args);
    running() = &block;
    for (block.index_ = 0; block.index_ < blocks; ++block.index_) block.run();
  }

  static Block*& running() {
    static Block* block = nullptr;
    return block;
  }

  int thread() const { return current_; }
  int index() const { return index_; }

  // Waits until `count` threads have come to `meeting`; the last one does `work` before the others go on.
  struct Meeting {
    int came = 0;
    int number = 0;
  };
  template <class Work>
  void meet(Meeting& meeting, int count, const Work& work) {
    const int number = meeting.number;
    if (++meeting.came == count) {
      work();
      meeting.came = 0;
      ++meeting.number;
      return;
    }
    while (meeting.number == number) swapcontext(&fibers_[current_].context, &scheduler_);
  }
  void barrier() {
    meet(all_, static_cast<int>(fibers_.size()), [] {});
  }

 private:
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(256 << 10);
    bool done = false;
  };

  Block(int threads, Kernel kernel, const void* args) : fibers_(threads), kernel_(kernel), args_(args) {}

  static void enter() {
    Block& block = *running();
    block.kernel_(block.args_);
    block.fibers_[block.current_].done = true;
  }

  void run() {
    for (Fiber& fiber : fibers_) {
      fiber.done = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    for (bool some = true; some;) {
      some = false;
      for (current_ = 0; current_ < static_cast<int>(fibers_.size()); ++current_) {
        if (fibers_[current_].done) continue;
        some = true;
        swapcontext(&scheduler_, &fibers_[current_].context);
      }
    }
  }

  std::vector<Fiber> fibers_;
  Kernel kernel_;
  const void* args_;
  ucontext_t scheduler_{};
  Meeting all_;
  int current_ = 0, index_ = 0;
};

}  // namespace emulated

constexpr int imin(int a, int b) { return a < b ? a : b; }
constexpr int imax(int a, int b) { return a > b ? a : b; }
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

inline int thread_index() { return emulated::Block::running()->thread(); }
inline int block_index() { return emulated::Block::running()->index(); }
inline int uniform(int value) { return value; }
inline u32 multiply_high(u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); }

namespace emulated {

// Values of a wave's lanes, brought together.
struct LaneValues {
  Block::Meeting meeting;
  u32 brought[cfg::kLanes], taken[cfg::kLanes];

  // What `work` makes of all lanes' values, for the calling lane.
  template <class Work>
  u32 exchange(u32 value, const Work& work) {
    const int lane = thread_index() % cfg::kLanes;
    brought[lane] = value;
    Block::running()->meet(meeting, cfg::kLanes, work);
    return taken[lane];
  }
};

}  // namespace emulated

inline bool any_lane(bool condition) {
  static emulated::LaneValues waves[emulated::kMostWaves];
  emulated::LaneValues& wave = waves[thread_index() / cfg::kLanes];
  return wave.exchange(condition, [&] {
    u32 any = 0;
    for (const u32 one : wave.brought) any |= one;
    for (u32& one : wave.taken) one = any;
  }) != 0;
}
template <int kLanes>
inline u32 of_part(u32 value, int part) {
  struct Asked {
    emulated::LaneValues values;
    int part[cfg::kLanes];
  };
  static Asked waves[emulated::kMostWaves];
  const int thread = thread_index(), lane = thread % cfg::kLanes;
  Asked& wave = waves[thread / cfg::kLanes];
  wave.part[lane] = part;
  return wave.values.exchange(value, [&] {
    for (int l = 0; l < cfg::kLanes; ++l) wave.values.taken[l] = wave.values.brought[l % kLanes + wave.part[l] * kLanes];
  });
}
inline void block_barrier() { emulated::Block::running()->barrier(); }
inline void schedule_apart() {}
template <class Value>
inline void pin(Value&) {}
inline int recomputed(int value) { return value; }
inline int recomputed_uniform(int value) { return value; }

inline void atomic_max(float* to, float value) { *to = std::fmax(*to, value); }
inline float fmaf(float a, float b, float c) { return std::fma(a, b, c); }
inline float fabsf(float x) { return std::fabs(x); }
inline float fminf(float a, float b) { return std::fmin(a, b); }
inline float fmaxf(float a, float b) { return std::fmax(a, b); }
inline float log2_approx(float x) { return std::log2(x); }
inline float exp2_approx(float x) { return std::exp2(x); }
inline float rcp_approx(float x) { return 1.0f / x; }
inline float copysignf(float x, float sign) { return std::copysign(x, sign); }
inline float rounded_product(float a, float b) { return a * b; }
inline float min_nan(float a, float b) { return a < b || a != a ? a : b; }
inline float max_nan(float a, float b) { return a > b || a != a ? a : b; }

inline float from_bf16(u16 x) { return __builtin_bit_cast(float, static_cast<u32>(x) << 16); }
inline u16 to_bf16(float x) {
  const u32 bits = __builtin_bit_cast(u32, x);
  if (x != x) return static_cast<u16>(bits >> 16 | 64);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_f16(u16 x) { return static_cast<float>(__builtin_bit_cast(_Float16, x)); }
inline u16 to_f16(float x) { return __builtin_bit_cast(u16, static_cast<_Float16>(x)); }
template <bool kBf16>
inline u32 pack(float low, float high) {
  return kBf16 ? to_bf16(low) | to_bf16(high) << 16 : to_f16(low) | to_f16(high) << 16;
}

}  // namespace ts
