#include "sweep/attention/shapes.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <unordered_set>

#include "base/nearest.hpp"
#include "problem/derive.hpp"

namespace tilesmith {
std::string AttentionShape::id() const {
  std::string text = fmt::format("b{}_q{}_k{}_h{}x{}_d{}x{}_{}_{}_{}bias_p{}_{}lse", batch, seqlen_q, seqlen_k, heads_q,
                                 heads_kv, head_dim_qk, head_dim_v, name_of(data_type), name_of(mask),
                                 bias == BiasKind::elementwise ? "" : name_of(bias), dropout, lse ? "" : "no");
  if (window != kNoWindow) text += fmt::format("_w{}x{}", window[0], window[1]);
  for (const auto& [set, word] : {std::pair{soft_cap, "_softcap"}, {sink, "_sink"}, {block_scale, "_blockscale"}})
    if (set) text += word;
  if (others != AttentionProblem{}) text += "_" + differences_from_default(others);
  return text;
}

std::int64_t AttentionShapeSweep::size() const {
  std::vector<std::size_t> sizes = axes.others.counts();
  for (const std::size_t count :
       {axes.batch.size(), axes.seqlen_q.size(), axes.seqlen_k.size(), axes.heads_q.size(), axes.heads_kv.size(),
        axes.head_dim_qk.size(), axes.head_dim_v.size(), axes.data_type.size(), axes.mask.size(), axes.bias.size(),
        axes.dropout.size(), axes.lse.size(), axes.window.size(), axes.soft_cap.size(), axes.sink.size(),
        axes.block_scale.size()})
    sizes.push_back(count);
  std::int64_t product = 1;
  for (const std::size_t count : sizes)
    if (__builtin_mul_overflow(product, static_cast<std::int64_t>(count), &product))
      return std::numeric_limits<std::int64_t>::max();
  return product;
}

void AttentionShapeSweep::for_each(FunctionRef<void(const AttentionShape&)> visit) const {
  const std::int64_t count = size();
  for (std::int64_t index = 0; index < count; ++index) {
    AttentionShape shape;
    std::int64_t rest = index;
    const auto pick = [&rest](auto& field, const auto& values) {
      field = values[static_cast<std::size_t>(rest) % values.size()];
      rest /= static_cast<std::int64_t>(values.size());
    };
    for (const auto& set : axes.others.pick(rest)) set(shape.others);  // the last axes run fastest
    pick(shape.block_scale, axes.block_scale);
    pick(shape.sink, axes.sink);
    pick(shape.soft_cap, axes.soft_cap);
    pick(shape.window, axes.window);
    pick(shape.lse, axes.lse);
    pick(shape.dropout, axes.dropout);
    pick(shape.bias, axes.bias);
    pick(shape.mask, axes.mask);
    pick(shape.data_type, axes.data_type);
    pick(shape.head_dim_v, axes.head_dim_v);
    pick(shape.head_dim_qk, axes.head_dim_qk);
    pick(shape.heads_kv, axes.heads_kv);
    pick(shape.heads_q, axes.heads_q);
    pick(shape.seqlen_k, axes.seqlen_k);
    pick(shape.seqlen_q, axes.seqlen_q);
    pick(shape.batch, axes.batch);
    visit(shape);
  }
}

Result<int> AttentionShapes::timeout_s(std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tiers_.named(tier));
  return named->timeout_s;
}

Result<std::vector<const AttentionShapeSweep*>> AttentionShapes::sweeps(std::string_view variant,
                                                                        std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tiers_.named(tier));
  const auto section = variant_sections_.find(variant);
  if (section == variant_sections_.end()) {
    std::vector<std::string> known;
    for (const auto& [name, of] : variant_sections_) known.push_back(name);
    return fail(ErrorCode::invalid_argument, fmt::format("there is no variant '{}'", variant),
                did_you_mean(variant, known));
  }
  return sweeps_of(sections_.at(section->second), *named);
}

Result<std::vector<AttentionShape>> AttentionShapes::shapes(std::string_view variant, std::string_view tier,
                                                            Shard shard) const {
  TS_ASSIGN(const std::vector<const AttentionShapeSweep*> found, sweeps(variant, tier));
  std::vector<AttentionShape> all;
  for (const AttentionShapeSweep* sweep : found)
    sweep->for_each([&](const AttentionShape& shape) {
      if (shard.has(shape.id())) all.push_back(shape);
    });
  return all;
}

Result<std::vector<AttentionProblem>> load_attention_problems(const std::filesystem::path& path, std::string_view tier,
                                                              Shard shard) {
  TS_ASSIGN(const AttentionShapes matrix, AttentionShapes::load(path));
  TS_ASSIGN(const std::vector<AttentionShape> shapes, matrix.shapes("fwd", tier, shard));
  std::vector<AttentionProblem> problems;
  std::unordered_set<std::string> seen;
  for (const AttentionShape& shape : shapes) {
    if (shape.heads_q % shape.heads_kv != 0 || !seen.insert(shape.id()).second) continue;
    AttentionProblem problem = shape.others;
    problem.data_type = shape.data_type;
    problem.batch = shape.batch;
    problem.heads_q = shape.heads_q;
    problem.heads_kv = shape.heads_kv;
    problem.seqlen_q = shape.seqlen_q;
    problem.seqlen_k = shape.seqlen_k;
    problem.head_dim_qk = shape.head_dim_qk;
    problem.head_dim_v = shape.head_dim_v;
    problem.mask = shape.mask;
    problem.window_left = shape.window[0];
    problem.window_right = shape.window[1];
    problem.bias = shape.bias;
    problem.soft_cap = shape.soft_cap;
    problem.sink = shape.sink;
    problem.dropout = shape.dropout > 0;
    problem.lse = shape.lse;
    problem.block_scale = shape.block_scale;
    problems.push_back(with_derived_fields(problem));
  }
  return problems;
}

}  // namespace tilesmith
