#include "instances/attention_backward/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "instances/attention/gpu_rules.hpp"
#include "instances/attention_backward/families.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "kernels/cuda/common/mma_sm80.h"
#include "spec/head_dims.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

using OfBackward = CudaBackwardSubject;

static_assert(kCudaBackwardRows == TS_CUDA_BACKWARD_ROWS);

constexpr int kBlockOfBackward = 128;  // keys, or rows of a gradient: two warpgroups
constexpr int kStepOfFlash = 64;
constexpr int kDimStepOfBackward = 8;  // 16 bytes

/// Where dk and dv of 64 keys stay in a warpgroup's registers together, and where one gradient does.
int widest_of_backward(const OfBackward& s) {
  return s.is_products() && !s.is_flash() && !s.is_mma() ? 128 : 256;
}

/// Kernels that read single elements where rows are no whole 16 bytes.
bool reads_elements(const OfBackward& s) {
  return s.is_mma() || s.signature().family != AttentionFamily::bwd_dq_dk_dv;
}

bool has_backward_type(const OfBackward& s, const CudaBackwardPipeline& pipeline) {
  return std::ranges::find(pipeline.data_types, s.signature().data_type) != pipeline.data_types.end();
}

bool backward_dim_fits(const OfBackward& s, int dim) {
  const int step = reads_elements(s) ? 1 : kDimStepOfBackward;
  return dim >= step && dim <= widest_of_backward(s) && dim % step == 0;
}

/// What a block may have: on mma_sm80 what every chip has that runs it.
long shared_of_backward(const OfBackward& s) {
  return s.is_mma() ? std::min<long>(s.spec.shared_bytes_per_block, TS_MMA_SM80_SHARED_BYTES)
                    : s.spec.shared_bytes_per_block;
}

/// What is left of a signature when the fields that the templates carry are reset.
bool backward_only(const OfBackward& s) {
  AttentionSignature rest = s.signature();
  if (!is_attention_backward(s.config)) return false;
  rest.family = AttentionSignature{}.family;
  rest.data_type = AttentionSignature{}.data_type;
  rest.mode = SequenceMode::batch;
  rest.head_dim_qk = rest.head_dim_v = AttentionSignature{}.head_dim_qk;
  rest.unaligned = rest.sink = rest.dbias = false;  // asked by rules of their own
  if (s.signature().family != AttentionFamily::bwd_convert_dq) rest.deterministic = false;
  if (s.is_products() || s.is_bias_gradient()) {
    rest.mask = MaskKind::none;
    rest.dropout = rest.soft_cap = false;
  }
  if (s.is_products() || rest.bias == BiasKind::elementwise) rest.bias = BiasKind::none;
  return rest == AttentionSignature{};
}

constexpr Rule<OfBackward> kCudaBackwardRules[] = {
    {"family_is_carried",
     "the templates compute attention backward in three kernels or four; the traits are those of the products",
     backward_only,
     [](const OfBackward& s) {
       return fmt::format("family {}, lse {}, paged_kv {}, qscale {}, rope {}", name_of(s.signature().family),
                          s.signature().lse, s.signature().paged_kv, name_of(s.signature().qscale),
                          name_of(s.signature().rope));
     }},
    {"chip_is_listed", "the chip's spec has pipelines of attention backward for these inputs",
     [](const OfBackward& s) {
       return std::ranges::any_of(s.spec.attention_bwd,
                                  [&](const CudaBackwardPipeline& one) { return has_backward_type(s, one); });
     },
     [](const OfBackward& s) {
       return fmt::format("{} on {}, which has {} pipelines of attention backward", name_of(s.signature().data_type),
                          s.spec.arch.text(), s.spec.attention_bwd.size());
     }},
    {"pipeline_is_offered", "the products run on the listed pipeline and instruction, the other kernels on rows alone",
     [](const OfBackward& s) {
       if (s.is_bias_gradient()) return s.is_mma() && s.algorithm().instruction == Instruction::mma_sync;
       if (!s.is_products())
         return s.algorithm().pipeline == Pipeline::rowwise && s.algorithm().instruction == Instruction::automatic;
       return std::ranges::any_of(s.spec.attention_bwd, [&](const CudaBackwardPipeline& one) {
         return has_backward_type(s, one) && one.pipeline == s.algorithm().pipeline &&
                one.instruction == s.algorithm().instruction;
       });
     },
     [](const OfBackward& s) {
       return fmt::format("{} with {}", name_of(s.algorithm().pipeline), name_of(s.algorithm().instruction));
     }},
    {"head_dims_fit",
     "sums stay in registers: dk and dv of a block of keys together up to 128, one gradient up to 256; mma_sm80 takes "
     "any, the others steps of 16 bytes",
     [](const OfBackward& s) {
       return backward_dim_fits(s, s.signature().head_dim_qk) && backward_dim_fits(s, s.signature().head_dim_v);
     },
     [](const OfBackward& s) {
       return fmt::format("head_dim_qk {}, head_dim_v {}; at most {} in steps of {}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, widest_of_backward(s), reads_elements(s) ? 1 : kDimStepOfBackward);
     }},
    {"rows_can_be_copied",
     "the copy engine takes rows that are multiples of 16 bytes; others are copied to such rows first, by plans of the "
     "copies' signature",
     [](const OfBackward& s) { return !s.signature().unaligned || reads_elements(s); },
     [](const OfBackward& s) { return fmt::format("unaligned {}", s.signature().unaligned); }},
    {"sink_needs_no_kernel",
     "a sink is in the log-sum-exp, and the first kernel has its gradient: no trait of a kernel",
     [](const OfBackward& s) { return !s.signature().sink; },
     [](const OfBackward& s) { return fmt::format("sink {}", s.signature().sink); }},
    {"gradient_belongs_to_bias",
     "dbias is the gradient of an elementwise bias or of ALiBi's slopes; before the products an elementwise one is "
     "zeroed",
     [](const OfBackward& s) {
       if (s.is_products()) return !s.signature().dbias || s.signature().bias != BiasKind::none;
       if (s.is_bias_gradient()) return s.signature().dbias && s.signature().bias == BiasKind::elementwise;
       if (s.signature().family == AttentionFamily::bwd_convert_dq && s.signature().dbias) return false;
       return s.signature().dbias == (s.signature().bias == BiasKind::elementwise);
     },
     [](const OfBackward& s) {
       return fmt::format("dbias {}, bias {}", s.signature().dbias, name_of(s.signature().bias));
     }},
    {"rows_are_deterministic",
     "where each gradient has blocks of its own, nothing is added in memory: there is one kind",
     [](const OfBackward& s) {
       const bool by_rows = s.is_bias_gradient() || (s.is_products() && (s.is_flash() || s.is_mma()));
       return !by_rows || s.signature().deterministic;
     },
     [](const OfBackward& s) {
       return fmt::format("pipeline {}, deterministic {}", name_of(s.algorithm().pipeline),
                          s.signature().deterministic);
     }},
    kMaskIsAWindow<OfBackward>,
    {"tile_is_carried",
     "warpspec: 64 queries, or 128 where a row of dq is one column of 64, and 128 keys; flash: 128 rows and steps of "
     "64; mma_sm80: whole 16 rows and steps of 16 or 32; before and behind them rows, and the columns that are added "
     "in "
     "memory",
     [](const OfBackward& s) {
       const int m = s.tile_m(), n = s.tile_n();
       const bool narrow = s.signature().head_dim_qk <= 64;
       if (s.is_mma()) return m >= 16 && m % 16 == 0 && (n == 16 || n == 32);
       if (s.is_products() && s.is_flash()) return m == kBlockOfBackward && n == kStepOfFlash;
       if (s.is_products()) return n == kBlockOfBackward && (m == 64 || (m == 128 && narrow));
       if (n != 0 && n != 64 * ((s.signature().head_dim_qk + 63) / 64)) return false;
       if (s.signature().family == AttentionFamily::bwd_dot_do_o) return m == kCudaBackwardRows;
       return m == 64 || (m == 128 && (narrow || n == 0));
     },
     [](const OfBackward& s) {
       return fmt::format("tile {}x{}, head_dim_qk {}", s.tile_m(), s.tile_n(), s.signature().head_dim_qk);
     }},
    {"fields_belong_to_pipeline",
     "the products have 1 to 4 stages (flash: 2) and a dynamic scheduler, the other kernels and those on mma_sm80 no "
     "option",
     [](const OfBackward& s) {
       Algorithm rest = s.algorithm();
       if (s.config.origin != Origin::own) return false;
       if (s.is_products() && !s.is_mma()) {
         if (rest.stages < 1 || rest.stages > 4 || !rest.dynamic_scheduler) return false;
         if (s.is_flash() && rest.stages != 2) return false;
         rest.stages = 0;
         rest.dynamic_scheduler = false;
       }
       return rest == Algorithm{.pipeline = rest.pipeline,
                                .instruction = rest.instruction,
                                .tile = {rest.tile[0], rest.tile[1]}};
     },
     [](const OfBackward& s) {
       return fmt::format("stages {}, dynamic_scheduler {}", s.algorithm().stages, s.algorithm().dynamic_scheduler);
     }},
    {"shared_memory_fits", "keys, values, the stages of queries and do, dS and the barriers fit a block",
     [](const OfBackward& s) { return cuda_backward_resources(s.config).shared_bytes <= shared_of_backward(s); },
     [](const OfBackward& s) {
       return fmt::format("{} of {} bytes", cuda_backward_resources(s.config).shared_bytes, shared_of_backward(s));
     }},
    {"registers_hold_sums", "scores, their gradients and what a block sums stay in registers; else the compiler spills",
     [](const OfBackward& s) {
       const CudaBackwardResources facts = cuda_backward_resources(s.config);
       return !s.is_products() || facts.needed_registers <= facts.consumer_registers;
     },
     [](const OfBackward& s) {
       const CudaBackwardResources facts = cuda_backward_resources(s.config);
       return fmt::format("about {} of {} registers", facts.needed_registers, facts.consumer_registers);
     }},
    // Found by compiling (NVRTC 13.0): 730 bytes with a soft cap, more with the others.
    {"traits_leave_registers",
     "beside 128 queries there are no registers for what a soft cap, dropout, an elementwise bias or the gradient of "
     "slopes needs of each pair",
     [](const OfBackward& s) {
       return !s.is_products() || s.is_flash() || s.is_mma() || s.tile_m() <= 64 ||
              !(s.signature().soft_cap || s.signature().dropout || s.signature().dbias ||
                s.signature().bias == BiasKind::elementwise);
     },
     [](const OfBackward& s) {
       return fmt::format("tile_m {}, soft_cap {}, dropout {}, bias {}, dbias {}", s.tile_m(), s.signature().soft_cap,
                          s.signature().dropout, name_of(s.signature().bias), s.signature().dbias);
     }},
};

/// The config of a kernel on rows: of the signature only what such a kernel knows.
KernelConfig rowwise_backward(const KernelConfig& products, AttentionFamily family, int tile_m) {
  const int sum_columns = cuda_backward_resources(products).sum_columns;
  const AttentionSignature& s = products.attention();
  AttentionSignature signature;
  signature.family = family;
  signature.data_type = s.data_type;
  signature.mode = s.mode;
  signature.head_dim_qk = s.head_dim_qk;
  signature.head_dim_v = s.head_dim_v;
  if (family == AttentionFamily::bwd_dot_do_o) signature.unaligned = s.unaligned;
  if (family == AttentionFamily::bwd_dot_do_o) {
    signature.deterministic = s.deterministic && sum_columns > 0;
    signature.dbias = s.dbias && s.bias == BiasKind::elementwise;
    if (signature.dbias) signature.bias = BiasKind::elementwise;
  }
  return {.arch = products.arch,
          .signature = signature,
          .algorithm = {.pipeline = Pipeline::rowwise,
                        .tile = {static_cast<std::uint16_t>(tile_m), static_cast<std::uint16_t>(sum_columns)}}};
}

/// The config of the kernel that sums dbias for these products: the same traits, on the larger tile that fits.
KernelConfig bias_gradient(const KernelConfig& products) {
  KernelConfig config{
      .arch = products.arch,
      .signature = products.signature,
      .algorithm = {.pipeline = Pipeline::mma_sm80, .instruction = Instruction::mma_sync, .tile = {64, 32}}};
  config.attention().family = AttentionFamily::bwd_dbias;
  if (cuda_backward_resources(config).shared_bytes > TS_MMA_SM80_SHARED_BYTES) config.algorithm.tile = {32, 16};
  return config;
}

}  // namespace

std::span<const Rule<CudaBackwardSubject>> cuda_backward_rules() {
  return kCudaBackwardRules;
}

Recipe cuda_backward_recipe(const KernelConfig& products) {
  const AttentionSignature& s = products.attention();
  const int sum_rows =
      cuda_backward_resources(products).sum_columns > 0 ? products.algorithm.tile[0] : kCudaBackwardRows;
  std::vector<Step> steps{
      {rowwise_backward(products, AttentionFamily::bwd_dot_do_o, kCudaBackwardRows), StepRole::prepare},
      {products, StepRole::compute},
      {rowwise_backward(products, AttentionFamily::bwd_convert_dq, sum_rows), StepRole::convert}};
  if (s.deterministic && s.dbias && s.bias == BiasKind::elementwise)
    steps.push_back({bias_gradient(products), StepRole::sum_bias});
  return Recipe(std::move(steps));
}

void walk_cuda_backward(const CudaSpec& spec, const AttentionSignature& signature, CudaBackwardVisit visit) {
  const int head_dim = std::max(signature.head_dim_qk, signature.head_dim_v);
  for (const CudaBackwardPipeline& pipeline : spec.attention_bwd)
    for (const CudaBackwardTile& row : pipeline.tiles) {
      if (!row.head_dim.holds(head_dim)) continue;
      const KernelConfig config{
          .arch = spec.arch,
          .signature = signature,
          .algorithm = {.pipeline = pipeline.pipeline,
                        .instruction = pipeline.instruction,
                        .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n)},
                        .stages = static_cast<std::uint8_t>(row.stages),
                        .dynamic_scheduler = pipeline.pipeline != Pipeline::mma_sm80}};
      if (!visit(config, row, first_refusal(cuda_backward_rules(), CudaBackwardSubject{config, spec}))) return;
    }
}

void listed_backward_signatures(const CudaSpec& spec, AttentionSignatureSink sink) {
  AttentionSignature signature;
  signature.family = AttentionFamily::bwd_dq_dk_dv;
  struct Bias {
    BiasKind kind;
    bool gradient;
  };
  constexpr Bias kBiases[] = {{BiasKind::none, false},
                              {BiasKind::elementwise, false},
                              {BiasKind::elementwise, true},
                              {BiasKind::alibi, false},
                              {BiasKind::alibi, true}};
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::tf32})
    for (const auto& [qk, v] : listed_head_dims(spec))
      for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group})
        for (const MaskKind mask : {MaskKind::none, MaskKind::causal, MaskKind::generic})
          for (const Bias bias : kBiases)
            for (unsigned flags = 0; flags < 8; ++flags) {
              signature.data_type = type;
              signature.head_dim_qk = static_cast<std::uint16_t>(qk);
              signature.head_dim_v = static_cast<std::uint16_t>(v);
              signature.mode = mode;
              signature.mask = mask;
              signature.bias = bias.kind;
              signature.dbias = bias.gradient;
              signature.dropout = (flags & 1) != 0;
              signature.soft_cap = (flags & 2) != 0;
              signature.deterministic = (flags & 4) != 0;
              if (!sink(signature)) return;
            }
}

void enumerate_cuda_backward(const CudaSpec& spec, ConfigSink sink) {
  std::set<Key128> seen;  // products of several signatures share the kernels around them
  bool wanted = true;
  listed_backward_signatures(spec, [&](const AttentionSignature& signature) {
    walk_cuda_backward(spec, signature, [&](const KernelConfig& config, const CudaBackwardTile&, const auto* refused) {
      if (refused != nullptr) return true;
      for (const Step& step : cuda_backward_recipe(config).steps)
        if (step.role == StepRole::compute || seen.insert(key_of(step.config)).second)
          wanted = wanted && sink(step.config);
      return wanted;
    });
    return wanted;
  });
}

}  // namespace tilesmith
