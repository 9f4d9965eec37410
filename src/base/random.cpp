#include "base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

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
  // Box and Muller: two uniform words give two normal numbers; (word + 1) * 2^-32 keeps the logarithm's argument off
  // zero.
  fill(target, stream, threads, [deviation](const PhiloxCounter& words) {
    std::array<float, kWordsPerBlock> made;
    for (std::size_t pair = 0; pair < kWordsPerBlock; pair += 2) {
      const double radius = static_cast<double>(deviation) * std::sqrt(-2 * std::log(unit(words[pair]) + 0x1p-32));
      const double angle = 2 * std::numbers::pi * unit(words[pair + 1]);
      made[pair] = static_cast<float>(radius * std::cos(angle));
      made[pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return made;
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
