// A random attention problem with its tensors, for tests: odd sizes, gaps and broadcasts in the strides, empty
// sequences, rows that see nothing, biases of -infinity, maxima that rise from key block to key block, heavy sinks.
// Every tensor lies between red zones that read as NaN, and is compared bit for bit with what it was after every run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/attention/pages.hpp"
#include "verify/attention/reference.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith::testing {

/// A problem of these types, dims and traits: group, mask, bias (or odd bias, which nothing may be assumed of), alibi,
/// cap, sink, drop, lse, unaligned, block, paged, cache8 (of e4m3), cachei8 (of int8), pagescale, latent.
[[nodiscard]] AttentionProblem traits(DataType type, std::int64_t qk, std::int64_t v, std::string_view words);
/// Random sizes for a problem whose data type, mode, head dims and traits are given; a mask other than none becomes any
/// mask or window.
[[nodiscard]] AttentionProblem random_shape(AttentionProblem traits, std::uint64_t seed);
[[nodiscard]] std::string describe(const AttentionProblem& problem);

class RandomCall {
 public:
  /// Strides are multiples of `stride_step` elements where the head dims are.
  RandomCall(const AttentionProblem& problem, std::uint64_t seed, std::int64_t stride_step = 1);
  RandomCall(const RandomCall&) = delete;
  RandomCall& operator=(const RandomCall&) = delete;

  [[nodiscard]] const AttentionProblem& problem() const { return problem_; }
  [[nodiscard]] const AttentionArguments& arguments() const { return arguments_; }

  /// Multiplies the logits, before the first run.
  void steepen(float factor) { tensors_.scale = arguments_.scale *= factor; }

  /// Makes the reference, poisons the outputs and runs the plan; on a device, on copies of all tensors and their red
  /// zones.
  [[nodiscard]] Status run(const AttentionPlan& plan);
  /// What is wrong with the last run's outputs, or which input it changed; empty when nothing is.
  [[nodiscard]] std::string judge();
  /// What a kernel may touch of the host's memory: from each tensor's first element to its last.
  struct Memory {
    const char* name;
    std::span<const std::byte> bytes;
    bool written;
  };
  [[nodiscard]] std::vector<Memory> memory() const;
  /// The last run's output, dense.
  [[nodiscard]] std::vector<float> output() const;

 private:
  [[nodiscard]] Status run_on_device(const AttentionPlan& plan);
  /// Packed: of one member, whose batch stride is ignored.
  [[nodiscard]] GuardedBuffer& tensor(std::int64_t members, bool packed, std::int64_t heads, std::int64_t rows,
                                      std::int64_t dim, bool may_broadcast, AttentionStrides& strides);
  void make_pages();
  [[nodiscard]] bool one_in(std::uint64_t chances) { return random(chances) == 0; }
  [[nodiscard]] std::int64_t random(std::uint64_t bound);
  [[nodiscard]] std::vector<std::int32_t> offsets(std::int64_t longest);
  void make_bias();
  void hide_keys(std::vector<float>& bias, std::size_t keys) const;
  void make_scale(std::int64_t heads, std::int64_t longest, std::vector<float>& values, AttentionScale& scale);
  void make_page_scale(std::vector<float>& values, AttentionScale& scale);
  void describe_for_checks();
  [[nodiscard]] const char* name_of_input(std::size_t index) const;
  /// What a call may read beside the tensors.
  [[nodiscard]] std::vector<Memory> lists() const;
  /// What a call may read but not write, as it was.
  struct Kept {
    const char* name;
    std::span<const std::byte> memory;
    std::vector<std::byte> bytes;
  };
  void keep_inputs();
  void compare(const Kept& input, const void* now);
  [[nodiscard]] Status make_reference();

  AttentionProblem problem_;
  std::uint64_t seed_;
  std::int64_t stride_step_;
  std::uint64_t draw_ = 0;
  std::vector<std::unique_ptr<GuardedBuffer>> inputs_;
  std::unique_ptr<GuardedBuffer> o_, lse_;
  std::vector<float> alibi_, sink_, q_scale_, k_scale_, v_scale_;
  std::vector<std::int32_t> cu_seqlens_q_, cu_seqlens_k_, page_offsets_;
  RandomPages pages_;
  TensorExtents o_extents_;
  AttentionArguments arguments_;
  AttentionTensors tensors_;
  std::optional<AttentionReference> reference_;
  std::vector<Kept> kept_;
  std::string changed_;
};

}  // namespace tilesmith::testing
