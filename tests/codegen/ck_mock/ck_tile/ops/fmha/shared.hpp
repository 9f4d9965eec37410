// A stand-in for CK Tile's attention: what its families share. Template arguments come in order and kind; the
// functions' parameters by kind: strides are figures, addresses are addresses.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "ck_tile/core.hpp"
#include "ck_tile/ops/epilogue.hpp"

namespace ck_tile {

enum class BlockAttentionBiasEnum { NO_BIAS, ELEMENTWISE_BIAS, ALIBI };
enum class RotaryEmbeddingEnum { NONE, INTERLEAVED, HALF_ROTATED };

template <bool kMasking, bool kLocal = false>
struct GenericAttentionMask {
  static constexpr bool kIsMask = true;
  static constexpr bool kIsGeneric = true;
  static constexpr bool mask = kMasking;
};
template <bool kMasking>
struct SimplifiedGenericAttentionMask {
  static constexpr bool kIsMask = true;
  static constexpr bool kIsGeneric = false;
  static constexpr bool mask = kMasking;
};

/// What a shape is made of.
template <class Tile, class Waves0, class Warp0, class Waves1, class Warp1, bool kVRowMajor>
struct TileFmhaShape {
  static_assert(Tile::kSize == 6 && Waves0::kSize == 3 && Warp0::kSize == 3 && Waves1::kSize == 3 && Warp1::kSize == 3);
  static constexpr index_t m0 = Tile::at(0), n0 = Tile::at(1), k0 = Tile::at(2), n1 = Tile::at(3), k1 = Tile::at(4),
                           k0max = Tile::at(5);
  static constexpr index_t kWaves = Waves0::kProduct;
  static_assert(k0max % k0 == 0, "slices of k0 fill the head dim");
  static_assert(Waves1::kProduct % Waves0::kProduct == 0, "waves of the products agree");
  static_assert(kVRowMajor, "V by rows");
};

#if TILESMITH_CK_VERSION >= 202507
inline constexpr std::uint32_t LOGITS_SOFT_CAP = 4;

template <std::uint32_t kCode = 0, std::uint32_t kFastExp2 = 1>
struct ComposedAttention {
  static constexpr bool kIsVariant = true;
  static constexpr bool soft_cap = kCode == LOGITS_SOFT_CAP;
  static_assert(kCode == 0 || kFastExp2 == 1, "a soft cap needs the fast exponential");
};
#define TILESMITH_VARIANT class Variant,
#define TILESMITH_CHECK_VARIANT static_assert(Variant::kIsVariant && Variant::soft_cap == Traits::soft_cap)
#else
#define TILESMITH_VARIANT
#define TILESMITH_CHECK_VARIANT static_assert(true)
#endif

#if TILESMITH_CK_VERSION >= 202605
enum class BlockAttentionQuantScaleEnum { NO_SCALE, PERTENSOR, BLOCKSCALE, KV_BLOCKSCALE };
#define TILESMITH_TRLOAD bool kUseTrLoad,
#else
#define TILESMITH_TRLOAD
#endif

/// A pipeline: its problem, what it asks of the shape, and the class of its mask.
template <class P, int kSlices, bool kGenericMask>
struct ForwardPipeline {
  using Problem = P;
  static_assert(P::ShapeOf::k0max / P::ShapeOf::k0 >= kSlices, "slices of the head dim");
  static_assert(P::MaskOf::kIsGeneric == kGenericMask, "the mask's class");
};
using Seed = std::variant<std::pair<std::uint64_t, std::uint64_t>, std::pair<const void*, const void*>>;

/// p an address, i a figure, l a long one, f a factor, b a flag, s a seed, t a table. C++ would turn a flag into a
/// figure and a figure into a factor.
template <class T>
constexpr char kKind = std::is_pointer_v<T> || std::is_null_pointer_v<T> ? 'p'
                       : std::is_same_v<T, index_t>                      ? 'i'
                       : std::is_same_v<T, long_index_t>                 ? 'l'
                       : std::is_same_v<T, float>                        ? 'f'
                       : std::is_same_v<T, bool>                         ? 'b'
                       : std::is_same_v<T, Seed>                         ? 's'
                       : std::is_class_v<T>                              ? 't'
                                                                         : '?';

/// Whether a function's arguments are of these kinds, in this order: "p2 f" are two addresses and a factor.
template <class... Given>
constexpr bool are_kinds(const char* kinds) {
  const char given[] = {kKind<Given>..., 0};
  const char* next = given;
  while (*kinds != 0) {
    const char kind = *kinds++;
    int count = 0;
    while (*kinds >= '0' && *kinds <= '9') count = 10 * count + (*kinds++ - '0');
    for (count = count == 0 ? 1 : count; count > 0; --count)
      if (*next++ != kind) return false;
    if (*kinds == ' ') ++kinds;
  }
  return *next == 0;
}

template <class Pipeline>
struct KernelBase {
  using PipelineOf = Pipeline;
  struct Kargs {};
  static constexpr index_t kBlockSize = Pipeline::Problem::kBlockSize;
  static constexpr index_t kBlockPerCu = Pipeline::Problem::TraitsOf::kBlockPerCu;
  static constexpr dim3 BlockSize() { return dim3(kBlockSize); }
};

}  // namespace ck_tile
