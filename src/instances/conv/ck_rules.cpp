#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/lasting.hpp"
#include "instances/conv/ck.hpp"

namespace tilesmith {
namespace {

using Subject = AmdConvSubject;

std::string figures3(const std::array<std::uint16_t, 9>& v) {
  return fmt::format("{}x{}x{}", v[0], v[1], v[2]);
}
Shape3 first3(const std::array<std::uint16_t, 9>& v) {
  return {v[0], v[1], v[2]};
}
bool dense(const Subject& s) {
  return !s.signature().depthwise;
}
constexpr int kLoadingWaves = 4;  // of the wavelet pipeline, beside those that multiply

int threads(const Subject& s) {
  const auto& w = s.algorithm().wave;
  const int loading = s.algorithm().pipeline == Pipeline::wavelet ? kLoadingWaves : 0;
  return (w[0] * w[1] * w[2] + loading) * s.chip.lanes_per_wave;
}
const AmdFragments* fragments(const Subject& s) {
  return s.chip.fragments_of(s.signature().data_type, s.signature().data_type, DataType::fp32);
}

constexpr Rule<Subject> kRules[] = {
    {"tile_is_whole", "the tile is a multiple of waves times fragment",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       for (std::size_t i = 0; i < 3 && dense(s); ++i)
         if (a.wave[i] == 0 || a.warp[i] == 0 || a.tile[i] % (a.wave[i] * a.warp[i]) != 0) return false;
       return true;
     },
     [](const Subject& s) {
       return fmt::format("{} over {} waves of {}", figures3(s.algorithm().tile), figures3(s.algorithm().wave),
                          figures3(s.algorithm().warp));
     }},
    {"scheduler_fits_pipeline", "only two pipelines have the inter-wave scheduler",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return a.scheduler != Scheduler::interwave || a.pipeline == Pipeline::mem || a.pipeline == Pipeline::compv1;
     },
     [](const Subject& s) {
       return fmt::format("{} {}", name_of(s.algorithm().pipeline), name_of(s.algorithm().scheduler));
     }},
    {"pipeline_fits_direction", "compv5 cannot transpose what the backward directions read",
     [](const Subject& s) {
       return s.signature().direction == ConvDirection::forward || s.algorithm().pipeline != Pipeline::compv5;
     },
     [](const Subject& s) {
       return fmt::format("{} {}", name_of(s.signature().direction), name_of(s.algorithm().pipeline));
     }},
    {"stream_k_fits_direction", "only the gradient of weights is split over K, on chips with waves of 64 lanes",
     [](const Subject& s) {
       return s.signature().stream_k_reduction == StreamKReduction::none ||
              (s.signature().direction == ConvDirection::backward_weight && s.chip.lanes_per_wave != 32);
     },
     [](const Subject& s) {
       return fmt::format("{}, reduction {}, {} lanes", name_of(s.signature().direction),
                          name_of(s.signature().stream_k_reduction), s.chip.lanes_per_wave);
     }},
    {"vectors_are_even", "a lane accesses one element or an even number",
     [](const Subject& s) {
       return std::ranges::all_of(s.algorithm().vector, [](int v) { return v <= 1 || v % 2 == 0; });
     },
     [](const Subject& s) { return fmt::format("{}", fmt::join(s.algorithm().vector, ",")); }},
    {"compv6_loads_something", "compv6 divides by the number of loads that a lane makes, so a lane makes at least one",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       if (a.pipeline != Pipeline::compv6) return true;
       const int lanes = threads(s);
       return a.tile[0] * a.tile[2] / (lanes * a.vector[0]) >= 1 && a.tile[1] * a.tile[2] / (lanes * a.vector[1]) >= 1;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return fmt::format("{} and {} elements over {} lanes in {} and {}", a.tile[0] * a.tile[2], a.tile[1] * a.tile[2],
                          threads(s), a.vector[0], a.vector[1]);
     }},
    {"narrow_waves_have_deep_fragments",
     "on chips with waves of 32 lanes, upstream accepts fragments that are at least 32 deep and not 32 rows high",
     [](const Subject& s) {
       if (!dense(s) || s.chip.lanes_per_wave != 32) return true;
       const auto& a = s.algorithm();
       return a.warp[2] >= 32 && a.wave[2] * a.warp[2] <= a.tile[2] && a.warp[0] != 32;
     },
     [](const Subject& s) {
       return fmt::format("{} lanes, fragment {}", s.chip.lanes_per_wave, figures3(s.algorithm().warp));
     }},
};

constexpr Rule<Subject> kChipRules[] = {
    {"tile_is_within_limits", "the operator accepts tiles from a least size upwards, in fixed steps",
     [](const Subject& s) {
       return !dense(s) ||
              s.gemm.conv_limits[static_cast<std::size_t>(s.signature().direction)].allow(s.algorithm().tile);
     },
     [](const Subject& s) {
       const TileLimits& limits = s.gemm.conv_limits[static_cast<std::size_t>(s.signature().direction)];
       return fmt::format("{}, at least {} in steps of {}", figures3(s.algorithm().tile), fmt::join(limits.min, "x"),
                          fmt::join(limits.step, "x"));
     }},
    {"waves_are_listed", "the chip's table has the wave layout",
     [](const Subject& s) {
       return !dense(s) ||
              std::ranges::find(s.chip.waves_per_block, first3(s.algorithm().wave)) != s.chip.waves_per_block.end();
     },
     [](const Subject& s) { return fmt::format("{} on {}", figures3(s.algorithm().wave), s.chip.arch.text()); }},
    {"fragment_exists", "silicon: the matrix unit has the fragment for the inputs",
     [](const Subject& s) {
       if (!dense(s)) return true;
       const AmdFragments* table = fragments(s);
       return table != nullptr && std::ranges::find(table->shapes, first3(s.algorithm().warp)) != table->shapes.end();
     },
     [](const Subject& s) {
       std::vector<std::string> has;
       if (const AmdFragments* table = fragments(s))
         for (const Shape3& shape : table->shapes) has.push_back(fmt::format("{}", fmt::join(shape, "x")));
       return fmt::format("{} for {}; {} has {}", figures3(s.algorithm().warp), name_of(s.signature().data_type),
                          s.chip.arch.text(), fmt::join(has, " "));
     }},
    {"lds_fits", "one stage of A and B fits the share of local memory the pipeline may take",
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       const long bytes = static_cast<long>(t[0] + t[1]) * t[2] * bits_of(s.signature().data_type) / 8;
       return !dense(s) || bytes <= s.gemm.lds_budget(s.chip, s.algorithm().pipeline);
     },
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       return fmt::format("{} bytes, {} may take {}",
                          static_cast<long>(t[0] + t[1]) * t[2] * bits_of(s.signature().data_type) / 8,
                          name_of(s.algorithm().pipeline), s.gemm.lds_budget(s.chip, s.algorithm().pipeline));
     }},
};

/// Figures of a depthwise kernel: one wave's lanes each own a subtile of outputs, and several images share the wave
/// when subtiles are few.
struct DepthwiseFigures {
  int subtiles = 0, images_per_wave = 0, lds_width = 0;
  long lds_bytes = 0;
};
DepthwiseFigures depthwise_figures(const Subject& s) {
  const auto& a = s.algorithm();
  const ConvSignature& c = s.signature();
  const auto ceil_div = [](int x, int y) { return (x + y - 1) / std::max(1, y); };
  const auto round_up = [&](int x, int y) { return ceil_div(x, y) * std::max(1, y); };
  DepthwiseFigures out;
  out.subtiles = ceil_div(a.tile[0], a.subtile[0]) * ceil_div(a.tile[1], a.subtile[1]);
  out.images_per_wave = out.subtiles == 0 ? 0 : 64 / out.subtiles;
  const int height = a.tile[0] * c.stride[0] + 2 * c.padding[0];
  out.lds_width = a.tile[1] * c.stride[1] + 2 * c.padding[1];
  const int load = a.vector[0];
  const int stride = std::max(round_up(out.lds_width, load), round_up(out.lds_width + c.padding[1], std::min(load, 4)));
  out.lds_bytes = static_cast<long>(height) * stride * out.images_per_wave * bits_of(c.data_type) / 8;
  return out;
}
constexpr int kDepthwiseLanes = 64;  // a depthwise block is one wave of 64

constexpr std::string_view kNotDepthwise = "no depthwise kernel";

constexpr Rule<Subject> kSoundOnly[] = {
    {"block_fits_chip", "silicon: a block has at most 1024 lanes",
     [](const Subject& s) { return !dense(s) || threads(s) <= 1024; },
     [](const Subject& s) { return fmt::format("{} lanes", threads(s)); }},
    {"depthwise_shape",
     "kernel: the padded filter is odd, the stride is 1 or even, the subtiles lie within the tile, and "
     "the vectors are powers of two",
     [](const Subject& s) {
       if (dense(s)) return true;
       const auto& a = s.algorithm();
       const ConvSignature& c = s.signature();
       const bool powers = std::has_single_bit(unsigned{a.vector[0]}) && std::has_single_bit(unsigned{a.vector[2]});
       const bool within =
           a.subtile[0] > 0 && a.subtile[1] > 0 && a.subtile[0] <= a.tile[0] && a.subtile[1] <= a.tile[1];
       return c.filter[0] % 2 == 1 && powers && within && (c.stride[1] == 1 || c.stride[1] % 2 == 0) &&
              c.padding[1] > 0;
     },
     [](const Subject& s) {
       if (dense(s)) return std::string(kNotDepthwise);
       const auto& a = s.algorithm();
       const ConvSignature& c = s.signature();
       return fmt::format("filter {}, stride {}, padding {}, subtile {}x{}, vectors {} and {}", c.filter[0],
                          c.stride[1], c.padding[1], a.subtile[0], a.subtile[1], a.vector[0], a.vector[2]);
     }},
    {"depthwise_fills_wave",
     "kernel: the subtiles of whole images fill one wave, which loads a row of inputs at a time",
     [](const Subject& s) {
       if (dense(s)) return true;
       const DepthwiseFigures f = depthwise_figures(s);
       const auto& a = s.algorithm();
       if (f.subtiles > kDepthwiseLanes || f.images_per_wave == 0 || a.images == 0 || a.images % f.images_per_wave != 0)
         return false;
       const int load = a.vector[0];
       return a.subtile[1] * s.signature().stride[1] % std::min(load, 4) == 0 &&
              (f.lds_width + load - 1) / load <= kDepthwiseLanes;
     },
     [](const Subject& s) {
       if (dense(s)) return std::string(kNotDepthwise);
       const DepthwiseFigures f = depthwise_figures(s);
       return fmt::format("{} subtiles, {} images a wave of {}, rows of {} inputs", f.subtiles, f.images_per_wave,
                          s.algorithm().images, f.lds_width);
     }},
    {"depthwise_lds_fits", "silicon: the inputs of a wave's images fit local memory",
     [](const Subject& s) { return dense(s) || depthwise_figures(s).lds_bytes <= std::min(65536L, s.chip.lds_bytes); },
     [](const Subject& s) {
       return dense(s) ? std::string(kNotDepthwise) : fmt::format("{} bytes", depthwise_figures(s).lds_bytes);
     }},
    {"depthwise_fills_chip_wave", "silicon: a depthwise block is one wave of 64 lanes",
     [](const Subject& s) { return dense(s) || s.chip.lanes_per_wave == kDepthwiseLanes; },
     [](const Subject& s) { return fmt::format("waves of {} lanes", s.chip.lanes_per_wave); }},
    {"depthwise_type_compiles", "DepthwiseConvFwdTraits asserts fp16 or fp32",
     [](const Subject& s) { return dense(s) || s.signature().data_type != DataType::bf16; },
     [](const Subject& s) { return fmt::format("data_type {}", name_of(s.signature().data_type)); }},
    {"image_is_prepared",
     "a kernel that splits images reads a list of pieces that its caller works out and writes into the kernel's "
     "arguments, whose form a version of Composable Kernel does not tell; sources that make it are not written",
     [](const Subject& s) { return !s.signature().large_tensor; },
     [](const Subject& s) { return fmt::format("large_tensor {}", s.signature().large_tensor); }},
    {"merged_groups_are_implicit", "GroupedConvolutionForwardKernel asserts that an explicit GEMM has one group",
     [](const Subject& s) {
       return s.signature().direction != ConvDirection::forward || !s.algorithm().explicit_gemm ||
              s.algorithm().groups_merged == 1;
     },
     [](const Subject& s) {
       return fmt::format("explicit_gemm {}, groups_merged {}", s.algorithm().explicit_gemm,
                          s.algorithm().groups_merged);
     }},
    {"results_are_right",
     "kernel: the combination is none of those that were measured upstream to compute wrong results",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       for (const AmdConvSpec::WrongResults& wrong : s.spec.wrong_results) {
         const bool same_type = !wrong.half_only || s.signature().data_type != DataType::fp32;
         const bool same_pipeline =
             std::ranges::find(wrong.pipelines, std::pair(a.pipeline, a.scheduler)) != wrong.pipelines.end();
         if (dense(s) && s.signature().direction == wrong.direction && same_type && same_pipeline &&
             a.wave[0] * a.wave[1] > wrong.waves_mn_above)
           return false;
       }
       return true;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return fmt::format("{} {} {} {}, {} waves over m and n", name_of(s.signature().direction),
                          name_of(s.signature().data_type), name_of(a.pipeline), name_of(a.scheduler),
                          a.wave[0] * a.wave[1]);
     }},
};

}  // namespace

std::span<const Rule<AmdConvSubject>> amd_conv_rules() {
  return kRules;
}
std::span<const Rule<AmdConvSubject>> amd_conv_chip_rules() {
  return kChipRules;
}
std::span<const Rule<AmdConvSubject>> amd_conv_sound_rules() {
  static const std::vector<Rule<Subject>>& rules = lasting([] {
    std::vector<Rule<Subject>> all(std::begin(kChipRules), std::end(kChipRules));
    all.insert(all.end(), std::begin(kSoundOnly), std::end(kSoundOnly));
    return all;
  }());
  return rules;
}

}  // namespace tilesmith
