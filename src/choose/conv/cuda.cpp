#include "choose/conv/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "choose/conv/cuda_padded.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/gemm/cuda_model.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_pipelines.hpp"
#include "problem/conv/matrix.hpp"
#include "problem/conv/slices.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Every config that has the problem's signature: with any number of dimensions, or its own, of slices theirs. With a
/// condition only those that hold it, of pipelines that may suit and have kernels of so many dimensions.
void walk_signatures(const CudaSpec& spec, const ConvProblem& problem, const CudaConvVisit& visit,
                     const std::function<bool(const KernelConfig&)>& condition = {}, CudaConvKept* kept = nullptr) {
  const ConvProblem images = images_of_slices(problem).value_or(problem);
  const int own = cuda_conv_dimensions(images);
  bool goes_on = true;
  for (int dims = 3; dims >= own && goes_on; dims = dims == own ? 0 : own) {
    CudaConvWanted wanted{.pipeline = {}, .config = condition};
    if (condition)
      wanted.pipeline = [&](Pipeline pipeline) {
        const CudaConvChoosing* choosing = cuda_conv_choosing(pipeline);
        return choosing != nullptr && dims == (cuda_conv_pipeline(pipeline)->has_own_dimensions ? own : 3) &&
               choosing->may_suit(dims == 3 ? problem : images);
      };
    const auto walk = [&](const ConvSignature& signature) {
      const Lent asked(kept, signature, [&] { return CudaConvAsked(spec, signature); });
      goes_on = asked->walk(visit, wanted);
    };
    ConvSignature signature = cuda_signature_of(problem, dims);
    walk(signature);
    if (problem.c != 1 || problem.k != 1 || !goes_on) continue;
    signature.depthwise = true;
    walk(signature);
  }
}

Error why_no_conv(const CudaSpec& spec, const ConvProblem& problem) {
  Error error{ErrorCode::unsupported, fmt::format("no CUDA kernel computes convolution on {}", spec.arch.text()),
              "a device that has them, such as the CPU"};
  walk_signatures(spec, problem, [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule* refused) {
    if (refused == nullptr) return true;
    error = {ErrorCode::unsupported,
             fmt::format("no CUDA kernel computes this problem: rule {}: {}", refused->name,
                         refused->figures({config, spec})),
             std::string(refused->about)};
    return false;
  });
  return error;
}

/// A tile of the copy engine with all channels of a pixel brings it once; so do kernels for few channels in any case.
/// (1x1 64-256 on 56x56, 96 x 256 beside 128 x 128 by turns: H200 75.0 and 76.3 us, H100 101.4 and 104.5; 1024-256 on
/// 14x14, beside 192 x 128 by turns: H200 22.3 and 23.0 us.)
void put_whole_pixels_first(const CudaSpec& spec, const GemmProblem& problem, std::vector<Candidate>& candidates) {
  const CudaGemmShape shape = cuda_gemm_shape(problem);
  const auto by_copies = [](const KernelConfig& config) {
    return config.algorithm.pipeline == Pipeline::warp_specialized;
  };
  const auto whole = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
    const KernelConfig& config = candidate.recipe.main();
    return config.operation() == Operation::gemm && by_copies(config) && config.algorithm.tile[1] >= shape.n;
  });
  if (whole != candidates.end() && by_copies(candidates.front().recipe.main()) &&
      whole->predicted_seconds <= spec.conv.models.matrix.nearly * candidates.front().predicted_seconds)
    std::rotate(candidates.begin(), whole, whole + 1);
}

/// Of blocks that the chip runs at a time.
std::int64_t rounds_of(const CudaGemmPriced& one, const CudaSpec& spec) {
  return ceil_div(one.work.items, cuda_gemm_places(one.facts, spec));
}

/// Backward weight: the pixels of x and y come from memory, which GEMM's model hides nearly whole. Split products, by
/// clusters too, take longer than operands in the L2 cache let them, and neither hides the other whole; so do those of
/// blocks with equal shares, which read different pixels at a time. Of twenty 1x1 layers the former took 0.9 to 1.6 of
/// GEMM's prediction, the latter 0.9 to 1.8 (H200). Clusters that share k took 1.2 to 2.5 of it (H100). Tiles of no
/// whole 64 channels begin within lines of the cache (64 x 96 and 64 x 112 of 1024-768 on 7x7 took 1.4 of it, 64 x 128
/// 1.0, H100). The block that adds parts makes split products longer.
double seconds_from_memory(const CudaSpec& spec, const GemmProblem& problem, const CudaGemmShape& shape,
                           const CudaGemmPriced& one) {
  const CudaConvMatrixModel& model = spec.conv.models.matrix;
  const Algorithm& a = one.config.algorithm;
  const bool is_crowded =
      static_cast<double>(one.work.items) > model.crowd * static_cast<double>(cuda_gemm_places(one.facts, spec));
  double seconds = one.seconds;
  if (a.cluster_k > 1 || (a.split_k && is_crowded)) {  // fewer have memory enough each
    const double memory = spec.reference.memory_seconds(
        static_cast<double>((shape.m + shape.n) * shape.k * shape.batch) * bits_of(problem.type_a) / 8);
    const double tiles = static_cast<double>(rounds_of(one, spec)) *
                         cuda_gemm_item_seconds(one.config, one.facts, &one.row, spec, shape, one.work.splits);
    seconds = spec.reference.launch_seconds() + std::hypot(model.split * tiles, memory);
  } else if (a.stream_k) {
    seconds *= model.scattered;
  } else if (a.tile[0] % 64 != 0 || a.tile[1] % 64 != 0) {
    seconds *= model.within_lines;
  }
  return a.split_k ? seconds * model.joined : seconds;
}

/// What the portable pipeline takes for results that leave one by one.
double lone_results_seconds(const CudaSpec& spec, const CudaGemmShape& shape, const CudaGemmPriced& one) {
  const Algorithm& a = one.config.algorithm;
  if (a.vector[2] != 1) return 0;
  const auto rounds = static_cast<double>(rounds_of(one, spec));
  const double columns = static_cast<double>(shape.n) / static_cast<double>(ceil_div(shape.n, std::int64_t{a.tile[1]}));
  return 1e-9 * spec.conv.models.gather.weight_result_ns * rounds * a.tile[0] * columns / one.facts.threads;
}

/// What the copy engine takes more for rows that end within a box of 128 bytes: those of a where k is no whole number
/// of boxes, whose rest it fills up with zeros, of b where its rows are not, and results of fewer columns than a box
/// has. (Backward data of 1x1 24-144 on 56x56, 112 x 64: 53.7 us, and 208 x 64 37.7; 192-24 on 230400 pixels, 136 x 64:
/// 101; 64-16 on 439040, forward, 112 x 64: 27.8; GEMM's model has 22.4, 23.1, 49 and 19.6; H200.)
double cut_rows_seconds(const CudaSpec& spec, const GemmProblem& problem, const CudaGemmShape& shape,
                        const CudaGemmPriced& one) {
  constexpr int kBoxBits = 8 * 128;
  const Algorithm& a = one.config.algorithm;
  const std::int64_t box = kBoxBits / bits_of(problem.type_a);
  const bool k_is_cut = shape.k % box != 0;
  const std::int64_t rows_of_b = problem.order_b == MatrixOrder::row ? (shape.n % box != 0 ? shape.k : 0)
                                 : k_is_cut                          ? std::min<std::int64_t>(a.tile[1], shape.n)
                                                                     : 0;
  const bool results_are_cut = shape.n * bits_of(problem.type_d) < kBoxBits;
  const std::int64_t cut_rows = ((k_is_cut ? 1 : 0) + (results_are_cut ? 1 : 0)) * a.tile[0] + rows_of_b;
  return 1e-9 * spec.conv.models.matrix.cut_row_ns * static_cast<double>((rounds_of(one, spec) - 1) * cut_rows);
}

/// What one of GEMM's kernels takes, beside convolution's own. GEMM's predictions leave out what all of its kernels
/// have in common.
double product_seconds(const CudaSpec& spec, const GemmProblem& problem, const CudaGemmShape& shape, bool weight,
                       const CudaGemmPriced& one) {
  const CudaConvMatrixModel& model = spec.conv.models.matrix;
  const bool portable = one.config.algorithm.pipeline == Pipeline::mma_sm80;
  double seconds = weight ? seconds_from_memory(spec, problem, shape, one) : one.seconds;
  if (!portable && !weight) seconds += cut_rows_seconds(spec, problem, shape, one);
  seconds += 1e-6 * (portable ? model.portable_begin_us : model.begin_us);
  return portable && !weight ? seconds + lone_results_seconds(spec, shape, one) : seconds;
}

/// Takes a candidate's only kernel, or that of padded channels, and its predicted seconds.
using AddKernel = FunctionRef<void(const KernelConfig& config, double seconds)>;

/// Every candidate but those of padded channels, in no order.
void add_direct(const CudaSpec& spec, const ConvProblem& problem, CudaConvMemory memory, AddKernel add) {
  const ConvProblem images = images_of_slices(problem).value_or(problem);
  const auto seen = [&](const KernelConfig& config) -> const ConvProblem& {
    return std::get<ConvSignature>(config.signature).spatial_dims == 3 ? problem : images;
  };
  walk_signatures(
      spec, problem,
      [&](const KernelConfig& config, const CudaGemmTile& row, const CudaConvRule* refused) {
        const CudaConvChoosing* own = cuda_conv_choosing(config.algorithm.pipeline);
        if (refused == nullptr && !own->unsuited(config, spec, seen(config)))
          add(config, own->seconds(config, row, spec, seen(config)));
        return true;
      },
      // What most are refused by, and cheaper to ask than rules.
      [&](const KernelConfig& config) {
        return !cuda_conv_choosing(config.algorithm.pipeline)->is_needless(config, seen(config));
      },
      memory.own);
  const auto gemm = gemm_of(problem);
  if (!gemm) return;
  const bool weight = problem.direction == ConvDirection::backward_weight;
  const CudaGemmShape shape = cuda_gemm_shape(*gemm);
  price(spec, *gemm, memory.products,
        [&](const CudaGemmPriced& one) { add(one.config, product_seconds(spec, *gemm, shape, weight, one)); });
}

/// Kernels of the same problem with whole octets of channels, between copies. Not of a product of matrices, whose
/// kernels fill rows up themselves: between copies it took 1.2 to 2.2 times as long (209-20, 62-64, 120-77 and 45-201
/// in all directions, H200), and ranking it too takes as long again.
void add_padded(const CudaSpec& spec, const ConvProblem& problem, CudaConvMemory memory,
                std::vector<Candidate>& candidates) {
  const auto padded = gemm_of(problem) ? std::nullopt : with_filled_channels(problem);
  const auto copies = padded ? padding_kernel(spec, problem.data_type) : std::nullopt;
  if (!copies) return;
  const double beside = padding_seconds(spec, problem, *padded);
  add_direct(spec, *padded, memory, [&](const KernelConfig& config, double seconds) {
    candidates.push_back({padded_recipe(*copies, config, problem, *padded), seconds + beside});
  });
}

/// Kernels read w as it lies, at full speed.
Status check_plain_w(const ConvProblem& problem) {
  if (!problem.packed_w) return {};
  return fail(ErrorCode::unsupported, "CUDA kernels read no packed w", "w as it lies");
}

}  // namespace

const CudaConvChoosing* cuda_conv_choosing(Pipeline pipeline) {
  switch (pipeline) {
    case Pipeline::mma_sm80:
      return &cuda_conv_choosing_mma_sm80();
    case Pipeline::warp_specialized:
      return &cuda_conv_choosing_warp_specialized();
    case Pipeline::depthwise:
      return &cuda_conv_choosing_depthwise();
    case Pipeline::grouped:
      return &cuda_conv_choosing_grouped();
    case Pipeline::halo:
      return &cuda_conv_choosing_halo();
    case Pipeline::stem:
      return &cuda_conv_choosing_stem();
    case Pipeline::direct:
      return &cuda_conv_choosing_direct();
    case Pipeline::pointwise:
      return &cuda_conv_choosing_pointwise();
    default:
      return nullptr;
  }
}

ConvSignature cuda_signature_of(const ConvProblem& p, int spatial_dims) {
  ConvSignature s;
  s.direction = p.direction;
  s.data_type = p.data_type;
  if (p.data_type == DataType::int8) s.accumulator = DataType::int32;
  s.spatial_dims = static_cast<std::uint8_t>(spatial_dims);
  s.type_out = p.type_out;
  // A bias that is not there has the type that lists have.
  s.type_bias = std::ranges::count(p.epilogue, EpilogueOp::bias) > 0 ? p.type_bias
                : p.type_out == DataType::int8                       ? DataType::fp32
                                                                     : p.type_out;
  s.epilogue_ops = p.epilogue;
  return s;
}

ConvProblem cuda_conv_seen(const KernelConfig& config, const ConvProblem& problem) {
  if (std::get<ConvSignature>(config.signature).spatial_dims == 3) return problem;
  return images_of_slices(problem).value_or(problem);
}

Result<Ranking> rank(const CudaSpec& spec, const ConvProblem& problem, CudaConvMemory memory) {
  TS_TRY(check_plain_w(problem));
  std::vector<Candidate> candidates;
  add_direct(spec, problem, memory, [&](const KernelConfig& config, double seconds) {
    candidates.push_back({.recipe = config, .predicted_seconds = seconds});
  });
  add_padded(spec, problem, memory, candidates);
  if (candidates.empty()) return std::unexpected(why_no_conv(spec, problem));
  best_first(candidates);
  if (const auto gemm = gemm_of(problem); gemm && problem.direction != ConvDirection::backward_weight)
    put_whole_pixels_first(spec, *gemm, candidates);
  return Ranking{std::move(candidates), "cost model"};
}

Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const ConvProblem& problem) {
  RefusalList out({});
  walk_signatures(spec, problem, [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule* refused) {
    const CudaConvChoosing* own = cuda_conv_choosing(config.algorithm.pipeline);
    const ConvProblem seen = cuda_conv_seen(config, problem);
    if (refused != nullptr)
      out.add(*refused, CudaConvSubject{config, spec});
    else if (const auto why = own == nullptr ? std::nullopt : own->unsuited(config, spec, seen))
      out.add(config, "suits_shape", *why);
    else if (own != nullptr && own->is_needless(config, seen))
      out.add(config, "wider_accesses_suit", "the same kernel with wider accesses is a candidate");
    return true;
  });
  return out.take();
}

Status serves(const CudaSpec& spec, const KernelConfig& config, const ConvProblem& problem) {
  TS_TRY(check_plain_w(problem));
  const auto other = [&](std::string why) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not compute this problem{}", native_name(config), why),
                "tilesmith run conv --candidates lists those that do");
  };
  if (config.operation() == Operation::gemm) {
    const auto gemm = gemm_of(problem);
    return gemm ? serves(spec, config, *gemm) : other(": it is no product of matrices as they lie");
  }
  if (config.operation() != Operation::conv) return other("");
  if (config.arch != spec.arch)
    return fail(
        ErrorCode::unsupported,
        fmt::format("kernel {} is for {}, the device is {}", native_name(config), config.arch.text(), spec.arch.text()),
        "tilesmith arch lists what runs here");
  if (const CudaConvRule* refused = cuda_conv_refusal({config, spec}))
    return fail(
        ErrorCode::unsupported,
        fmt::format("kernel {}: rule {}: {}", native_name(config), refused->name, refused->figures({config, spec})),
        std::string(refused->about));
  const auto& have = std::get<ConvSignature>(config.signature);
  const ConvProblem seen = cuda_conv_seen(config, problem);
  ConvSignature want = cuda_signature_of(problem, have.spatial_dims);
  want.depthwise = have.depthwise && problem.c == 1 && problem.k == 1;
  if (have != want || have.spatial_dims < cuda_conv_dimensions(seen)) return other("");
  const CudaConvChoosing* own = cuda_conv_choosing(config.algorithm.pipeline);
  if (own == nullptr) return other(": it copies channels before and behind others");
  const auto why = own->unsuited(config, spec, seen);
  return why ? other(": " + *why) : Status{};
}

}  // namespace tilesmith
