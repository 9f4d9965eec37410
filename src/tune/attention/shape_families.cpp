#include <array>

#include "tune/random_shapes.hpp"

namespace tilesmith {
namespace {

constexpr std::array<std::string_view, 5> kAttentionFamilies = {"prefill", "decode", "append", "varlen", "odd"};
constexpr std::array<std::string_view, 3> kBackwardFamilies = {"training", "varlen", "odd"};
constexpr std::array<std::int64_t, 3> kHeadDims = {64, 128, 256};
constexpr std::array<std::int64_t, 5> kOddHeadDims = {32, 40, 72, 80, 96};
constexpr std::array<std::int64_t, 3> kGroups = {1, 4, 8};  // query heads of a head of keys
constexpr std::array<std::int64_t, 4> kKeyHeads = {1, 2, 4, 8};

}  // namespace

std::span<const std::string_view> ShapeFamilies<AttentionFwd>::families() {
  return kAttentionFamilies;
}

AttentionProblem ShapeFamilies<AttentionFwd>::draw(std::string_view family, DataType type, ShapeRandom& random) {
  AttentionProblem p;
  p.data_type = type;
  p.heads_kv = random.one_of(kKeyHeads);
  p.heads_q = p.heads_kv * random.one_of(kGroups);
  p.head_dim_qk = p.head_dim_v = family == "odd" ? random.one_of(kOddHeadDims) : random.one_of(kHeadDims);
  const bool is_causal = random.next() % 2 == 0;
  if (family == "decode") {
    p.batch = random.size(1, 128);
    p.seqlen_q = 1;
    p.seqlen_k = random.size(128, 65536);
    return p;
  }
  p.batch = random.size(1, 16);
  if (family == "append") {
    p.seqlen_q = random.size(2, 64);
    p.seqlen_k = random.size(512, 32768);
    if (is_causal) p.mask = MaskKind::bottom_right;
    return p;
  }
  if (is_causal) p.mask = MaskKind::top_left;
  if (family == "odd") {
    p.seqlen_q = random.size(1, 600);
    p.seqlen_k = random.size(p.seqlen_q, 600);
  } else if (family == "varlen") {
    p.mode = SequenceMode::group;
    p.batch = random.size(2, 64);
    p.seqlen_q = p.seqlen_k = random.size(64, 8192);
  } else {
    p.seqlen_q = p.seqlen_k = random.size(128, 16384, 8);
  }
  return p;
}

std::span<const std::string_view> ShapeFamilies<AttentionBwd>::families() {
  return kBackwardFamilies;
}

AttentionBackwardProblem ShapeFamilies<AttentionBwd>::draw(std::string_view family, DataType type,
                                                           ShapeRandom& random) {
  const AttentionProblem f = ShapeFamilies<AttentionFwd>::draw(family == "training" ? "prefill" : family, type, random);
  return {.data_type = type,
          .mode = f.mode,
          .batch = f.batch,
          .heads_q = f.heads_q,
          .heads_kv = f.heads_kv,
          .seqlen_q = f.seqlen_q,
          .seqlen_k = f.seqlen_k,
          .head_dim_qk = f.head_dim_qk,
          .head_dim_v = f.head_dim_v,
          .mask = f.mask};
}

}  // namespace tilesmith
