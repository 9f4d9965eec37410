#include "verify/attention/one_hot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random.hpp"

namespace tilesmith {
namespace {

// Weights of e^-40 change no bit: a million of them beside a 1 stay far below the last place of fp32.
constexpr double kGap = 40;

float largest(ElementType type) {
  switch (type) {
    case ElementType::fp8e4m3:
      return 256.0F;  // the largest power of two
    case ElementType::fp8e5m2:
      return 32768.0F;
    case ElementType::fp16:
      return 32768.0F;
    default:
      return 0x1p60F;
  }
}

// How much bias, ALiBi and sink can change the distance between two logits.
double disturbance(const AttentionTensors& tensors) {
  double bias = 0;
  double slope = 0;
  double sink = 0;
  for (std::int64_t h = 0; h < tensors.heads_q; ++h) {
    if (tensors.sink != nullptr) sink = std::max(sink, std::abs(static_cast<double>(tensors.sink[h])));
    for (std::int64_t b = 0; b < tensors.batch; ++b) {
      if (tensors.alibi != nullptr)
        slope = std::max(slope, std::abs(static_cast<double>(tensors.alibi[b * tensors.alibi_batch_stride + h])));
      if (tensors.bias == nullptr) continue;
      const TensorStrides& strides = tensors.bias_strides;
      for (std::int64_t i = 0; i < tensors.seqlen_q; ++i)
        for (std::int64_t j = 0; j < tensors.seqlen_k; ++j)
          bias = std::max(
              bias, std::abs(static_cast<double>(
                        tensors.bias[b * strides.batch + h * strides.head + i * strides.row + j * strides.column])));
    }
  }
  return 2 * bias + sink + slope * static_cast<double>(tensors.seqlen_q + tensors.seqlen_k);
}

std::unexpected<Error> impossible(std::string why, std::string hint) {
  return fail(ErrorCode::unsupported, "no one-hot inputs exist: " + why, std::move(hint));
}

}  // namespace

Result<OneHotInputs> one_hot_inputs(const AttentionTensors& tensors, std::uint64_t seed) {
  const std::int64_t depth = tensors.head_dim_qk;
  const std::int64_t bits = std::max(
      1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(tensors.seqlen_k, 2) - 1))));
  const auto scale = static_cast<double>(tensors.scale);
  const auto soft_cap = static_cast<double>(tensors.soft_cap);
  if (depth < bits)
    return impossible(fmt::format("{} keys need {} dimensions", tensors.seqlen_k, bits),
                      fmt::format("head_dim_qk is {}", depth));
  if (scale == 0 || !std::isfinite(scale))
    return impossible(fmt::format("the scale is {}", tensors.scale), "any other number");
  if (tensors.pages.page_size > 0) return impossible("keys are in pages", "keys that are not paged");
  if (tensors.drop_threshold != 0) return impossible("dropout rounds its factor", "drop_threshold 0");

  // Key j is the signs of j's bits, repeated over the dimensions; query i is its key's signs. Two keys differ in one
  // bit at least, so their dot products differ by twice the repetitions, times the amplitudes (powers of two: every
  // product and sum is exact).
  const auto repeats = static_cast<double>(depth / bits);
  const double needed = kGap + disturbance(tensors);
  double amplitude = std::exp2(std::ceil(std::log2(needed / (2 * repeats * std::abs(scale)))));
  if (soft_cap != 0) {
    // The best logit is s = amplitude * depth * scale, the second at most s - gap; the cap squeezes both below
    // `soft_cap`. Amplitudes that bring the best near the cap's straight part keep them apart; larger ones press both
    // against it.
    const auto capped_gap = [&](double a) {
      const double best = a * static_cast<double>(depth) * std::abs(scale);
      return soft_cap * (std::tanh(best / soft_cap) - std::tanh((best - 2 * a * repeats * std::abs(scale)) / soft_cap));
    };
    double best = amplitude;
    for (double a = 0x1p-20; a < 0x1p20; a *= 2)
      if (capped_gap(a) > capped_gap(best)) best = a;
    amplitude = best;
    if (capped_gap(amplitude) < needed)
      return impossible(
          fmt::format("a soft cap of {} keeps logits within {:.3g} of each other", soft_cap, capped_gap(amplitude)),
          fmt::format("{:.3g} are needed", needed));
  }
  const int exponent = static_cast<int>(std::log2(amplitude));
  const auto k_amplitude = static_cast<float>(std::exp2(exponent / 2));
  const auto q_amplitude = static_cast<float>(std::exp2(exponent - exponent / 2) * (scale < 0 ? -1 : 1));
  if (k_amplitude > largest(tensors.k.type) || std::abs(q_amplitude) > largest(tensors.q.type))
    return impossible(fmt::format("the logits need factors of {} and {}", q_amplitude, k_amplitude),
                      fmt::format("{} reaches {}", to_string(tensors.q.type), largest(tensors.q.type)));
  const auto sign = [bits](std::int64_t j, std::int64_t d) { return (j >> d % bits & 1) != 0 ? 1.0F : -1.0F; };

  const std::int64_t total_k =
      tensors.group_mode() ? tensors.cu_seqlens_k[tensors.batch] : tensors.batch * tensors.seqlen_k;
  OneHotInputs inputs;
  inputs.q.resize(static_cast<std::size_t>(output_rows(tensors) * depth));
  inputs.k.resize(static_cast<std::size_t>(tensors.heads_kv * total_k * depth));
  inputs.v.resize(static_cast<std::size_t>(tensors.heads_kv * total_k * tensors.head_dim_v));
  // Values are +-1 .. +-15: exact in every type, and never 0, so that what the other weights add cannot be all there
  // is.
  fill_integers(inputs.v, {seed, 1}, 1, 30);
  for (float& value : inputs.v)
    if (value > 15) value = 15 - value;
  const RandomStream random{seed, 2};
  for (std::int64_t b = 0; b < tensors.batch; ++b) {
    const SequenceSpan sequence = sequence_of(tensors, b);
    for (std::int64_t h = 0; h < tensors.heads_kv; ++h)
      for (std::int64_t j = 0; j < sequence.seqlen_k; ++j) {
        const std::int64_t row = tensors.group_mode() ? h * total_k + sequence.k_begin + j
                                                      : (b * tensors.heads_kv + h) * tensors.seqlen_k + j;
        for (std::int64_t d = 0; d < depth; ++d)
          inputs.k[static_cast<std::size_t>(row * depth + d)] = k_amplitude * sign(j, d);
      }
    for (std::int64_t h = 0; h < tensors.heads_q; ++h)
      for (std::int64_t i = 0; i < sequence.seqlen_q; ++i) {
        const auto [first, last] = visible_keys(tensors, sequence, i);
        const std::int64_t row = output_row(tensors, b, h, i);
        std::int64_t key = 0;  // of no matter for a row that sees nothing
        if (first < last)
          key = first + static_cast<std::int64_t>(
                            random.below(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(last - first)));
        for (std::int64_t d = 0; d < depth; ++d)
          inputs.q[static_cast<std::size_t>(row * depth + d)] = q_amplitude * sign(key, d);
      }
  }
  return inputs;
}

}  // namespace tilesmith
