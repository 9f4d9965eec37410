// Reproducible random numbers for tests and random inputs. Element i of a fill depends on the seed, the stream and i
// alone: not on the number of threads, and not on how many elements follow.
#pragma once

#include <cstdint>
#include <span>

namespace tilesmith {

/// Which random sequence: one seed for a whole problem, one stream for each of its tensors.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  /// 64 random bits for position `index`.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const;
  /// Uniform in [0, 1).
  [[nodiscard]] double uniform(std::uint64_t index) const;
  /// An integer in [0, bound), bound > 0; its bias is below 2^-32 for bounds up to 2^32.
  [[nodiscard]] std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;
};

/// Normal distribution with mean 0; threads = 0 uses as many as the machine has.
void fill_normal(std::span<float> target, RandomStream stream, float deviation = 1.0F, unsigned threads = 0);
/// Uniform in [low, high).
void fill_uniform(std::span<float> target, RandomStream stream, float low, float high, unsigned threads = 0);
/// Whole numbers, each of low .. high equally likely.
void fill_integers(std::span<float> target, RandomStream stream, int low, int high, unsigned threads = 0);

}  // namespace tilesmith
