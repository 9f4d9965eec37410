#include "base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/clones.hpp"
#include "base/parallel.hpp"
#include "base/philox.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kWordsPerBlock = 4;
constexpr std::size_t kElementsPerTask = 1 << 15;

// The counter is (position low, position high, stream low, stream high), the key the seed.
PhiloxCounter block(const RandomStream& stream, std::uint64_t position) {
  return philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                     static_cast<std::uint32_t>(stream.stream), static_cast<std::uint32_t>(stream.stream >> 32)},
                    {static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)});
}

// make(words) turns one block into four elements.
template <class Make>
void fill(std::span<float> target, const RandomStream& stream, unsigned threads, Make make) {
  const std::size_t tasks = (target.size() + kElementsPerTask - 1) / kElementsPerTask;
  parallel_for(tasks, threads, [&](std::size_t task) {
    const std::size_t end = std::min(target.size(), (task + 1) * kElementsPerTask);
    for (std::size_t i = task * kElementsPerTask; i < end; i += kWordsPerBlock) {
      const std::array<float, kWordsPerBlock> made = make(block(stream, i / kWordsPerBlock));
      std::copy_n(made.begin(), std::min(kWordsPerBlock, end - i), target.begin() + static_cast<std::ptrdiff_t>(i));
    }
  });
}

constexpr double unit(std::uint32_t word) {
  return word * 0x1p-32;
}

// Normal numbers are made for kBlocks blocks of words at a time: a logarithm, a sine and a cosine from the library take
// most of a minute for the operands of large problems.
constexpr std::size_t kBlocks = 8;
using BlockWords [[gnu::vector_size(8 * kBlocks)]] = std::uint64_t;  // 32 bits each
using BlockNumbers [[gnu::vector_size(8 * kBlocks)]] = double;

// Vectors go by reference: where they lie otherwise depends on the instruction set that a function is built for.

/// Of whole numbers below 2^52.
[[gnu::always_inline]] inline void to_numbers(const BlockWords& words, BlockNumbers& numbers) {
  numbers = reinterpret_cast<BlockNumbers>(words | 0x4330000000000000u) - 0x1p52;
}

/// philox4x32's rounds; a word is in place of each 32-bit one.
[[gnu::always_inline]] inline void philox_blocks(BlockWords (&counter)[kWordsPerBlock], std::uint64_t seed) {
  constexpr std::uint64_t kLow = 0xffffffffu;
  std::uint64_t key[2] = {seed & kLow, seed >> 32};
  for (int round = 0; round < 10; ++round) {
    const BlockWords first = 0xD2511F53u * counter[0], second = 0xCD9E8D57u * counter[2];
    counter[0] = (second >> 32) ^ counter[1] ^ key[0];
    counter[1] = second & kLow;
    counter[2] = (first >> 32) ^ counter[3] ^ key[1];
    counter[3] = first & kLow;
    key[0] = (key[0] + 0x9E3779B9u) & kLow;
    key[1] = (key[1] + 0xBB67AE85u) & kLow;
  }
}

/// Of positive normal numbers: ln(2^e m) = e ln 2 + 2 artanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2)], whose
/// series ends where a term is below 1e-13 of the first.
[[gnu::always_inline]] inline void logarithms(const BlockNumbers& x, BlockNumbers& result) {
  const auto bits = reinterpret_cast<BlockWords>(x);
  auto m = reinterpret_cast<BlockNumbers>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  BlockNumbers e;
  to_numbers(bits >> 52, e);
  e -= 1023.0;
  const auto is_large = m > std::numbers::sqrt2;
  m = is_large ? m * 0.5 : m;
  e = is_large ? e + 1.0 : e;
  const BlockNumbers s = (m - 1.0) / (m + 1.0), t = s * s;
  BlockNumbers series = t * (1.0 / 17) + 1.0 / 15;
  for (const double term : {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) series = series * t + term;
  result = e * std::numbers::ln2 + 2.0 * s * series;
}

/// Of 2 pi words 2^-32: an eighth of a turn at most is left beside whole quarters, and both series end below 1e-11.
[[gnu::always_inline]] inline void cosines_and_sines(const BlockWords& words, BlockNumbers& cosines,
                                                     BlockNumbers& sines) {
  constexpr std::uint64_t kEighth = 1u << 29;
  const BlockWords quarters = (words + kEighth) >> 30;
  BlockNumbers rest;
  to_numbers(words + kEighth - (quarters << 30), rest);
  const BlockNumbers x = (rest - double{kEighth}) * (2 * std::numbers::pi * 0x1p-32), t = x * x;
  const BlockNumbers s =
      x * (1.0 + t * (-1.0 / 6 + t * (1.0 / 120 + t * (-1.0 / 5040 + t * (1.0 / 362880 - t * (1.0 / 39916800))))));
  const BlockNumbers c =
      1.0 + t * (-1.0 / 2 +
                 t * (1.0 / 24 + t * (-1.0 / 720 + t * (1.0 / 40320 + t * (-1.0 / 3628800 + t * (1.0 / 479001600))))));
  const auto is_odd = (quarters & 1) != 0;
  const BlockNumbers along = is_odd ? s : c, across = is_odd ? c : s;
  cosines = ((quarters + 1) & 2) != 0 ? -along : along;
  sines = (quarters & 2) != 0 ? -across : across;
}

/// Elements `begin`, a multiple of the words of kBlocks, to `end` of a fill. Box and Muller: two uniform words give two
/// normal numbers; (word + 1) * 2^-32 keeps the logarithm's argument off zero.
TS_CLONES void normal_numbers(const RandomStream& stream, float deviation, std::size_t begin, std::size_t end,
                              float* target) {
  constexpr std::size_t kTogether = kBlocks * kWordsPerBlock;
  for (std::size_t first = begin; first < end; first += kTogether) {
    BlockWords words[kWordsPerBlock];
    for (std::size_t lane = 0; lane < kBlocks; ++lane) {
      const std::uint64_t position = first / kWordsPerBlock + lane;
      words[0][lane] = position & 0xffffffffu;
      words[1][lane] = position >> 32;
      words[2][lane] = stream.stream & 0xffffffffu;
      words[3][lane] = stream.stream >> 32;
    }
    philox_blocks(words, stream.seed);
    std::array<float, kTogether> made;
    for (std::size_t pair = 0; pair < kWordsPerBlock; pair += 2) {
      BlockNumbers uniform, logarithm, cosines, sines;
      to_numbers(words[pair] + 1, uniform);
      logarithms(uniform * 0x1p-32, logarithm);
      cosines_and_sines(words[pair + 1], cosines, sines);
      for (std::size_t lane = 0; lane < kBlocks; ++lane) {
        const double radius = static_cast<double>(deviation) * std::sqrt(-2 * logarithm[lane]);
        made[lane * kWordsPerBlock + pair] = static_cast<float>(radius * cosines[lane]);
        made[lane * kWordsPerBlock + pair + 1] = static_cast<float>(radius * sines[lane]);
      }
    }
    std::copy_n(made.begin(), std::min(kTogether, end - first), target + first);
  }
}

}  // namespace

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  const PhiloxCounter words = block(*this, index / 2);
  return index % 2 == 0 ? std::uint64_t{words[1]} << 32 | words[0] : std::uint64_t{words[3]} << 32 | words[2];
}

double RandomStream::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  return bits(index) % bound;
}

void fill_normal(std::span<float> target, RandomStream stream, float deviation, unsigned threads) {
  const std::size_t tasks = (target.size() + kElementsPerTask - 1) / kElementsPerTask;
  parallel_for(tasks, threads, [&](std::size_t task) {
    const std::size_t end = std::min(target.size(), (task + 1) * kElementsPerTask);
    normal_numbers(stream, deviation, task * kElementsPerTask, end, target.data());
  });
}

void fill_uniform(std::span<float> target, RandomStream stream, float low, float high, unsigned threads) {
  const float last = std::nextafter(high, low);  // rounding to float may reach the open end
  fill(target, stream, threads, [low, high, last](const PhiloxCounter& words) {
    std::array<float, kWordsPerBlock> made;
    std::transform(words.begin(), words.end(), made.begin(), [=](std::uint32_t word) {
      return std::min(last, static_cast<float>(low + unit(word) * (static_cast<double>(high) - low)));
    });
    return made;
  });
}

void fill_integers(std::span<float> target, RandomStream stream, int low, int high, unsigned threads) {
  const double count = static_cast<double>(high) - low + 1;
  fill(target, stream, threads, [low, count](const PhiloxCounter& words) {
    std::array<float, kWordsPerBlock> made;
    std::transform(words.begin(), words.end(), made.begin(),
                   [=](std::uint32_t word) { return static_cast<float>(low + std::floor(unit(word) * count)); });
    return made;
  });
}

}  // namespace tilesmith
