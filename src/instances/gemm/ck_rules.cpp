// Composable Kernel's validity checks of GEMM tiles and traits, and what they miss.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "instances/gemm/ck.hpp"

namespace tilesmith {
namespace {

using Subject = AmdGemmSubject;

std::string figures3(const std::array<std::uint16_t, 9>& values) {
  return fmt::format("{}x{}x{}", values[0], values[1], values[2]);
}
std::string shapes(const std::vector<Shape3>& list) {
  std::vector<std::string> texts;
  for (const Shape3& shape : list) texts.push_back(fmt::format("{}", fmt::join(shape, "x")));
  return fmt::format("{}", fmt::join(texts, " "));
}
Shape3 first3(const std::array<std::uint16_t, 9>& values) {
  return {values[0], values[1], values[2]};
}
bool contains(const std::vector<Shape3>& list, const Shape3& shape) {
  // Not ==, which calls memcmp for twelve bytes: two fifths of an enumeration's time.
  return std::ranges::any_of(list, [&](const Shape3& listed) {
    return listed[0] == shape[0] && listed[1] == shape[1] && listed[2] == shape[2];
  });
}

long staged_bits(const Subject& s) {
  const auto& t = s.algorithm().tile;
  return (static_cast<long>(t[0]) * bits_of(s.signature().a) + static_cast<long>(t[1]) * bits_of(s.signature().b)) *
         t[2];
}

const AmdWaveLimit* wave_limit(const Subject& s) {
  for (const AmdWaveLimit& limit : s.chip.wave_limits)
    if (limit.pipeline == s.algorithm().pipeline && limit.scheduler == s.algorithm().scheduler) return &limit;
  return nullptr;
}

/// How a pre-shuffled B is laid over the lanes of a wave: every lane stores whole vectors, and the lanes split into
/// rows of one slice.
bool preshuffle_fits(const Subject& s, int lanes) {
  const auto& a = s.algorithm();
  const int waves = a.wave[0] * a.wave[1] * a.wave[2];
  if (waves == 0 || a.warp[0] == 0) return false;
  const int bits = bits_of(s.signature().b);
  const int stored = a.warp[0] * a.warp[2] * bits / 8 * (a.tile[0] / (a.wave[0] * a.warp[0])) / lanes;
  if (stored % 16 != 0) return false;
  const int k1 = 16 * 8 / bits;
  if (a.tile[2] % k1 != 0) return false;
  const int k0 = a.tile[2] / k1;
  if (k0 == 0 || lanes % k0 != 0) return false;
  const int m2 = lanes / k0;
  return a.tile[0] % (m2 * waves) == 0;
}
constexpr int kUpstreamLanes = 64;  // upstream counts on waves of 64 lanes everywhere

// Those that look at tile, waves and fragment alone come first: a sweep asks them once for all traits.
constexpr Rule<Subject> kRules[] = {
    {"tile_is_within_limits", "the operator accepts tiles from a least size upwards, in fixed steps",
     [](const Subject& s) { return s.spec.limits_of(s.signature().family).allow(s.algorithm().tile); },
     [](const Subject& s) {
       const TileLimits& limits = s.spec.limits_of(s.signature().family);
       return fmt::format("{}, at least {} in steps of {}", figures3(s.algorithm().tile), fmt::join(limits.min, "x"),
                          fmt::join(limits.step, "x"));
     }},
    {"tile_is_whole", "the tile is a multiple of waves times fragment",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       for (std::size_t i = 0; i < 3; ++i)
         if (a.wave[i] == 0 || a.warp[i] == 0 || a.tile[i] % (a.wave[i] * a.warp[i]) != 0) return false;
       return true;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return fmt::format("{} over {} waves of {}", figures3(a.tile), figures3(a.wave), figures3(a.warp));
     }},
    {"waves_are_listed", "the chip's table has the wave layout",
     [](const Subject& s) { return contains(s.chip.waves_per_block, first3(s.algorithm().wave)); },
     [](const Subject& s) {
       return fmt::format("{}; {} has {}", figures3(s.algorithm().wave), s.chip.arch.text(),
                          shapes(s.chip.waves_per_block));
     }},
    {"fragment_is_listed",
     "the chip's table has the fragment for the inputs' types; upstream accepts every fragment where the "
     "chip has no table for the types",
     [](const Subject& s) {
       const AmdFragments* table = s.fragments();
       return table == nullptr ? !s.chip.tables_are_hard : contains(table->shapes, first3(s.algorithm().warp));
     },
     [](const Subject& s) {
       const AmdFragments* table = s.fragments();
       return fmt::format("{} for {}; {} has {}", figures3(s.algorithm().warp), name_of(s.signature().a),
                          s.chip.arch.text(), table == nullptr ? std::string("no table") : shapes(table->shapes));
     }},
    {"preshuffle_covers_wave", "a pre-shuffled B is spread over 64 lanes in whole vectors",
     [](const Subject& s) {
       return s.signature().family != GemmFamily::preshuffle || preshuffle_fits(s, kUpstreamLanes);
     },
     [](const Subject& s) {
       return fmt::format("tile {}, waves {}, fragment {}", figures3(s.algorithm().tile), figures3(s.algorithm().wave),
                          figures3(s.algorithm().warp));
     }},
    {"scheduler_fits_pipeline", "most pipelines have the intra-wave scheduler only",
     [](const Subject& s) {
       return s.algorithm().scheduler != Scheduler::interwave ||
              std::ranges::find(s.spec.intrawave_only, s.algorithm().pipeline) == s.spec.intrawave_only.end();
     },
     [](const Subject& s) {
       return fmt::format("{} {}", name_of(s.algorithm().pipeline), name_of(s.algorithm().scheduler));
     }},
    {"pipeline_fits_family", "a pre-shuffled B needs the pipeline that reads it, and no other pipeline does",
     [](const Subject& s) {
       return (s.signature().family == GemmFamily::preshuffle) == (s.algorithm().pipeline == Pipeline::preshufflev2);
     },
     [](const Subject& s) {
       return fmt::format("family {}, pipeline {}", name_of(s.signature().family), name_of(s.algorithm().pipeline));
     }},
    {"lds_fits", "one stage of A and B fits the share of local memory the pipeline may take",
     [](const Subject& s) { return staged_bits(s) <= 8 * s.spec.lds_budget(s.chip, s.algorithm().pipeline); },
     [](const Subject& s) {
       return fmt::format("{} bytes, {} may take {} of {}", staged_bits(s) / 8, name_of(s.algorithm().pipeline),
                          s.spec.lds_budget(s.chip, s.algorithm().pipeline), s.chip.lds_bytes);
     }},
    {"block_is_not_too_wide", "larger blocks of this pipeline return wrong results or abort on the chip",
     [](const Subject& s) {
       const AmdWaveLimit* limit = wave_limit(s);
       return limit == nullptr || s.algorithm().wave[0] * s.algorithm().wave[1] <= limit->waves;
     },
     [](const Subject& s) {
       const AmdWaveLimit* limit = wave_limit(s);
       const int waves = s.algorithm().wave[0] * s.algorithm().wave[1];
       return limit == nullptr ? fmt::format("{} waves, no limit", waves)
                               : fmt::format("{} waves, at most {}", waves, limit->waves);
     }},
};
constexpr std::size_t kTileRules = 5;

bool in_axis(const std::vector<int>& axis, std::uint16_t figure) {
  return std::ranges::find(axis, static_cast<int>(figure)) != axis.end();
}
const AmdGemmSpec::Family& family_of(const Subject& s) {
  return s.spec.families[static_cast<std::size_t>(s.signature().family)];
}
std::string layout_of(const GemmSignature& s) {
  return fmt::format("{}{}{}", name_of(s.layout_a), name_of(s.layout_b), name_of(s.layout_c));
}
template <class T>
bool among(const std::vector<T>& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

constexpr Rule<Subject> kSweepRules[] = {
    {"data_type_is_listed", "the family is built for the data type, and the chip has fragments for it",
     [](const Subject& s) {
       return among(family_of(s).data_types, s.signature().a) && s.signature().b == s.signature().a &&
              s.fragments() != nullptr;
     },
     [](const Subject& s) {
       return fmt::format("{} on {}, which has {}", name_of(s.signature().a), s.chip.arch.text(),
                          s.fragments() == nullptr ? "no fragments for it" : "fragments for it");
     }},
    {"layout_is_listed", "the family is built for the layouts of A, B and C",
     [](const Subject& s) { return among(family_of(s).layouts, layout_of(s.signature())); },
     [](const Subject& s) {
       return fmt::format("{} of {}", layout_of(s.signature()), fmt::join(family_of(s).layouts, " "));
     }},
    {"tile_is_swept", "the sweep tries these figures for tile, waves and fragment",
     [](const Subject& s) {
       for (std::size_t i = 0; i < 3; ++i)
         if (!in_axis(s.spec.sweep.tile[i], s.algorithm().tile[i]) ||
             !in_axis(s.spec.sweep.waves[i], s.algorithm().wave[i]) ||
             !in_axis(s.spec.sweep.fragment[i], s.algorithm().warp[i]))
           return false;
       return true;
     },
     [](const Subject& s) {
       return fmt::format("tile {}, waves {}, fragment {}", figures3(s.algorithm().tile), figures3(s.algorithm().wave),
                          figures3(s.algorithm().warp));
     }},
    {"traits_are_swept", "the sweep tries the pipeline, the epilogue and the scheduler, without padding",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return among(family_of(s).pipelines, a.pipeline) && among(family_of(s).epilogues, a.epilogue) &&
              among(family_of(s).schedulers, a.scheduler) && a.pad[0] + a.pad[1] + a.pad[2] == 0;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return fmt::format("{} {} {}, pad {}{}{}", name_of(a.pipeline), name_of(a.epilogue), name_of(a.scheduler),
                          a.pad[0], a.pad[1], a.pad[2]);
     }},
    {"variant_is_swept", "the sweep tries the element-wise operation and its tensors, or the reduction",
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       if (g.family == GemmFamily::multi_d)
         return among(family_of(s).elementwise, g.elementwise) && among(family_of(s).num_d, static_cast<int>(g.num_d));
       return g.family != GemmFamily::stream_k || among(family_of(s).reductions, g.stream_k_reduction);
     },
     [](const Subject& s) {
       return fmt::format("{} of {} tensors, reduction {}", name_of(s.signature().elementwise), s.signature().num_d,
                          name_of(s.signature().stream_k_reduction));
     }},
};

/// Whether the lanes of a block bring in an operand of `contiguous` x `other` elements in whole vectors, each wave
/// whole rows of them.
bool block_covers(const Subject& s, int contiguous, int other, int bits) {
  const int lanes = s.chip.lanes_per_wave;
  const auto& wave = s.algorithm().wave;
  const long threads = static_cast<long>(wave[0]) * wave[1] * wave[2] * lanes;
  const long elements = static_cast<long>(contiguous) * other;
  if (threads == 0 || elements == 0 || elements % threads != 0) return false;
  const long each = elements / threads;
  long vector = 1;
  for (const int bytes : {16, 8, 4, 2, 1}) {
    const long candidate = std::max(1, bytes * 8 / bits);
    if (contiguous % candidate != 0 || each % candidate != 0) continue;
    vector = candidate;
    break;
  }
  const long x1 = std::min(vector, each);
  const long x0 = contiguous / x1;
  return x0 > 0 && lanes == x0 * (lanes / x0);
}
bool operands_are_covered(const Subject& s) {
  const auto& t = s.algorithm().tile;
  const GemmSignature& g = s.signature();
  const auto operand = [&](MatrixOrder order, MatrixOrder along_k, int extent, int bits) {
    // An operand whose k does not lie in a row is transposed on its way, so both ways must come out whole.
    if (order == along_k) return block_covers(s, t[2], extent, bits);
    return block_covers(s, extent, t[2], bits) && block_covers(s, t[2], extent, bits);
  };
  return operand(g.layout_a, MatrixOrder::row, t[0], bits_of(g.a)) &&
         operand(g.layout_b, MatrixOrder::column, t[1], bits_of(g.b));
}

constexpr Rule<Subject> kSoundRules[] = {
    {"type_is_written",
     "Composable Kernel's generator lists pk_fp4 and then refuses it, for want of a type of its elements; sources of "
     "it "
     "are not written here either",
     [](const Subject& s) { return s.signature().a != DataType::pk_fp4 && s.signature().b != DataType::pk_fp4; },
     [](const Subject& s) { return fmt::format("{} and {}", name_of(s.signature().a), name_of(s.signature().b)); }},
    {"fragment_exists",
     "silicon: the matrix unit has the fragment; a fragment that it lacks may compile and return zeros",
     [](const Subject& s) {
       const AmdFragments* table = s.fragments();
       return table != nullptr && contains(table->shapes, first3(s.algorithm().warp));
     },
     [](const Subject& s) {
       const AmdFragments* table = s.fragments();
       return fmt::format("{} for {}; {} has {}", figures3(s.algorithm().warp), name_of(s.signature().a),
                          s.chip.arch.text(), table == nullptr ? std::string("none") : shapes(table->shapes));
     }},
    {"block_fits_chip", "silicon: a block has at most 1024 lanes",
     [](const Subject& s) {
       const auto& w = s.algorithm().wave;
       return w[0] * w[1] * w[2] * s.chip.lanes_per_wave <= 1024;
     },
     [](const Subject& s) {
       return fmt::format("{} waves of {} lanes", figures3(s.algorithm().wave), s.chip.lanes_per_wave);
     }},
    {"block_covers_operands", "kernel: the block's lanes load A and B in whole vectors, and each wave loads whole rows",
     [](const Subject& s) { return operands_are_covered(s); },
     [](const Subject& s) {
       return fmt::format("tile {}, {} waves of {} lanes, layout {}", figures3(s.algorithm().tile),
                          figures3(s.algorithm().wave), s.chip.lanes_per_wave, layout_of(s.signature()));
     }},
    {"preshuffle_covers_chip_wave", "kernel: a pre-shuffled B is spread over as many lanes as the chip's waves have",
     [](const Subject& s) {
       return s.signature().family != GemmFamily::preshuffle || preshuffle_fits(s, s.chip.lanes_per_wave);
     },
     [](const Subject& s) {
       return fmt::format("tile {}, waves of {} lanes", figures3(s.algorithm().tile), s.chip.lanes_per_wave);
     }},
    {"cshuffle_store_is_right",
     "kernel: the shuffling epilogue stores wrong values for an odd repeat of a fragment 32 wide (measured upstream)",
     [](const Subject& s) {
       const auto& a = s.algorithm();
       if (a.epilogue != Epilogue::cshuffle) return true;
       for (std::size_t i = 0; i < 2; ++i) {
         const int repeat = a.wave[i] * a.warp[i] == 0 ? 0 : a.tile[i] / (a.wave[i] * a.warp[i]);
         if (a.warp[i] == 32 && repeat > 1 && repeat % 2 == 1) return false;
       }
       return true;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       const auto repeat = [&](std::size_t i) {
         return a.wave[i] * a.warp[i] == 0 ? 0 : a.tile[i] / (a.wave[i] * a.warp[i]);
       };
       return fmt::format("epilogue {}, repeats {} and {} of fragment {}x{}", name_of(a.epilogue), repeat(0), repeat(1),
                          a.warp[0], a.warp[1]);
     }},
    {"operation_reads_tensors",
     "kernel: a multi_d kernel calls its operation with the D tensors, which only multi_d_add and multi_d_multiply "
     "take",
     [](const Subject& s) {
       const ElementwiseKind kind = s.signature().elementwise;
       return s.signature().family != GemmFamily::multi_d || kind == ElementwiseKind::multi_d_add ||
              kind == ElementwiseKind::multi_d_multiply;
     },
     [](const Subject& s) {
       return fmt::format("{} over {} tensors", name_of(s.signature().elementwise), s.signature().num_d);
     }},
};

}  // namespace

AmdGemmRules amd_gemm_rules() {
  return kRules;
}
AmdGemmRules amd_gemm_tile_rules() {
  return std::span(kRules).first<kTileRules>();
}
AmdGemmRules amd_gemm_trait_rules() {
  return std::span(kRules).subspan<kTileRules>();
}
AmdGemmRules amd_gemm_sweep_rules() {
  return kSweepRules;
}
AmdGemmRules amd_gemm_sound_rules() {
  return kSoundRules;
}

}  // namespace tilesmith
