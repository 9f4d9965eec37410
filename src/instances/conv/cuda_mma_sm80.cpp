// The general template: kernels/cuda/conv/mma_sm80/conv.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "instances/conv/cuda_pipelines.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr int kStageBytesOfConv = 64;
constexpr int kRegistersOfSm = 65536;
/// Of a thread beside its sums: addresses and coordinates of what it gathers, and fragments. Found by compiling.
constexpr int kRegistersOfGather = 126;
/// More of 8-bit floats, which are converted on their way: beside 128 sums 268 to 312 bytes went to memory
/// (ptxas 13.0).
constexpr int kRegistersOfConversion = 32;
/// More on Hopper of backward data of 16 bits that adds a tensor, both 16 bytes and pairs at a time: beside 128 sums 16
/// bytes went to memory there, and on other chips none (ptxas 13.0).
constexpr int kRegistersOfAddedTensor = 2;
/// More on Hopper of 8-bit floats in parts, an element at a time: beside 64 sums 12 bytes went to memory there, and on
/// other chips none (ptxas 13.0).
constexpr int kRegistersOfConvertedParts = 34;
/// More where 8 bytes are read at a time: twice as many places along the depth.
constexpr int kRegistersOfHalves = 32;

int conv_element_bytes(const ConvSignature& s) {
  return std::max(bits_of(s.data_type) / 8, 1);
}

CudaConvResources gather_resources(const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const int m = a.tile[0], n = a.tile[1], bytes = conv_element_bytes(s);
  const bool weight = s.direction == ConvDirection::backward_weight;
  CudaConvResources r;
  r.threads = 32 * a.wave[0] * a.wave[1];
  r.blocks_per_sm = std::max<int>(a.block_per_cu, 1);
  r.stage_k = kStageBytesOfConv / bytes;
  r.aligned = a.vector[0] > 1;
  r.pairs = a.vector[2] > 1;
  r.part_bytes = 4L * m * n;
  // Rows along the depth, or of 16-bit elements as they lie; 16 bytes more each against bank conflicts.
  const auto operand = [&](int tile, bool along_depth) {
    return along_depth || bytes != 2 ? tile * (kStageBytesOfConv + 16L) : 32 * (2L * tile + 16);
  };
  const long stage = operand(m, !weight) + operand(n, s.direction == ConvDirection::forward);
  const long pixels = weight ? 0 : 16L * m;
  r.shared_bytes = a.stages * stage + 16 + pixels;
  if (r.threads == 0) return r;
  r.accumulators = m * n / r.threads * (bytes == 4 ? 2 : 1);  // products of three tf32 have sums of their own
  r.launch_registers = std::min(255, kRegistersOfSm / (r.threads * r.blocks_per_sm) / 8 * 8);
  return r;
}

/// Eight bytes at a time, of pixels whose channels are no whole sixteen.
bool reads_halves(const KernelConfig& config) {
  return config.algorithm.vector[0] * conv_element_bytes(std::get<ConvSignature>(config.signature)) == 8;
}

int registers_beside_sums(const CudaConvSubject& subject) {
  const ConvSignature& s = subject.signature();
  const bool is_converted = conv_element_bytes(s) == 1 && s.data_type != DataType::int8;
  const CudaConvResources facts = gather_resources(subject.config);
  const bool adds = subject.spec.major == 9 && conv_element_bytes(s) == 2 &&
                    s.direction == ConvDirection::backward_data && facts.aligned && facts.pairs &&
                    std::ranges::any_of(s.epilogue_ops, reads_tensor);
  const bool in_parts =
      subject.spec.major == 9 && is_converted && subject.algorithm().split_k && !facts.aligned && !facts.pairs;
  return kRegistersOfGather + (is_converted ? kRegistersOfConversion : 0) + (adds ? kRegistersOfAddedTensor : 0) +
         (in_parts ? kRegistersOfConvertedParts : 0) + (reads_halves(subject.config) ? kRegistersOfHalves : 0);
}

std::vector<Algorithm> gather_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  const int bytes = conv_element_bytes(s);
  Algorithm a{.pipeline = Pipeline::mma_sm80,
              .instruction = Instruction::mma_sync,
              .tile = {static_cast<std::uint16_t>(row.tile_m), static_cast<std::uint16_t>(row.tile_n),
                       static_cast<std::uint16_t>(kStageBytesOfConv / bytes)},
              .stages = static_cast<std::uint8_t>(row.stages),
              .block_per_cu = static_cast<std::int16_t>(row.blocks_per_sm),
              .split_k = row.splits > 1};
  for (std::size_t i = 0; i < row.wave.size(); ++i) a.wave[i] = static_cast<std::uint16_t>(row.wave[i]);
  std::vector<Algorithm> out;
  std::vector<int> reads{16 / bytes, 1};
  if (bytes == 2 && s.direction == ConvDirection::backward_weight) reads.insert(reads.begin() + 1, 4);
  for (const int read : reads)
    for (const int written : {2, 1}) {
      a.vector = {static_cast<std::uint8_t>(read), static_cast<std::uint8_t>(read), static_cast<std::uint8_t>(written)};
      out.push_back(a);
    }
  return out;
}

constexpr CudaConvRule kGatherRules[] = {
    {"all_sizes_are_run_time", "a kernel takes up to three dimensions, and filters, strides and groups of any size",
     [](const CudaConvSubject& s) { return s.signature().spatial_dims == 3 && !s.signature().depthwise; },
     [](const CudaConvSubject& s) {
       return fmt::format("{} dimensions, depthwise {}", s.signature().spatial_dims, s.signature().depthwise);
     }},
    {"tile_is_dealt_out",
     "warps have multiples of 16 x 16 of a tile of at most 256 x 256, and threads are multiples of its rows and "
     "columns, at most as many as there are elements of a step",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       const int m = a.tile[0], n = a.tile[1], along_m = a.wave[0], along_n = a.wave[1];
       const int threads = 32 * along_m * along_n, step = kStageBytesOfConv / conv_element_bytes(s.signature());
       return along_m >= 1 && along_n >= 1 && threads <= 1024 && m >= 16 && n >= 16 && m <= 256 && n <= 256 &&
              m % (16 * along_m) == 0 && n % (16 * along_n) == 0 && threads % m == 0 && threads % n == 0 &&
              step % (threads / m) == 0 && step % (threads / n) == 0 && a.tile[2] == step;
     },
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("tile {}x{}x{} by {}x{} warps", a.tile[0], a.tile[1], a.tile[2], a.wave[0], a.wave[1]);
     }},
    {"accesses_are_carried",
     "tensors are read 16 bytes at a time or by elements, those of 16 bits for filters also 8 bytes at a time, and "
     "written by elements or pairs",
     [](const CudaConvSubject& s) {
       const auto& [a, b, d] = s.algorithm().vector;
       const int bytes = conv_element_bytes(s.signature());
       const bool halves = bytes == 2 && a == 4 && s.signature().direction == ConvDirection::backward_weight;
       return a == b && (a == 1 || a * bytes == 16 || halves) && (d == 1 || d == 2);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} and {} elements", s.algorithm().vector[0], s.algorithm().vector[2]);
     }},
    {"fields_belong_to_pipeline", "stages, blocks that share an SM and a split sum are its only options",
     [](const CudaConvSubject& s) {
       Algorithm rest = s.algorithm();
       if (rest.stages < 2 || rest.block_per_cu < 1) return false;
       for (std::size_t i = 3; i < rest.tile.size(); ++i)
         if (rest.tile[i] != 0) return false;
       for (std::size_t i = 2; i < rest.wave.size(); ++i)
         if (rest.wave[i] != 0) return false;
       rest.tile = {};
       rest.wave = {};
       rest.vector = {};
       rest.stages = 0;
       rest.block_per_cu = -1;
       rest.split_k = false;
       return rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const CudaConvSubject& s) {
       return fmt::format("stages {}, blocks {}", s.algorithm().stages, s.algorithm().block_per_cu);
     }},
    {"shared_memory_fits", "the stages, and the pixels of the tile's rows, fit what a block has on every such chip",
     [](const CudaConvSubject& s) {
       return gather_resources(s.config).shared_bytes <=
              std::min<long>(s.spec.shared_bytes_per_block, TS_MMA_SM80_SHARED_BYTES);
     },
     [](const CudaConvSubject& s) {
       return fmt::format("{} of {} bytes", gather_resources(s.config).shared_bytes,
                          std::min<long>(s.spec.shared_bytes_per_block, TS_MMA_SM80_SHARED_BYTES));
     }},
    {"registers_hold_sums", "sums, and the places that a thread gathers from, stay in registers",
     [](const CudaConvSubject& s) {
       const CudaConvResources r = gather_resources(s.config);
       return r.accumulators + registers_beside_sums(s) <= r.launch_registers;
     },
     [](const CudaConvSubject& s) {
       const CudaConvResources r = gather_resources(s.config);
       return fmt::format("about {} of {}", r.accumulators + registers_beside_sums(s), r.launch_registers);
     }},
};

}  // namespace

const CudaConvPipeline& cuda_conv_mma_sm80() {
  static const CudaConvPipeline pipeline{kGatherRules, gather_resources, gather_algorithms};
  return pipeline;
}

}  // namespace tilesmith
