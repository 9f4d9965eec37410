#include "bench/shapes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <limits>
#include <unordered_set>

#include "base/nearest.hpp"
#include "base/sha256.hpp"

namespace tilesmith {
namespace {

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value, std::less<>>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

std::unexpected<Error> unknown(std::string_view what, std::string_view name, const std::vector<std::string>& known) {
  return fail(ErrorCode::invalid_argument, fmt::format("there is no {} '{}'", what, name), did_you_mean(name, known));
}

}  // namespace

std::string AttentionShape::id() const {
  return fmt::format("b{}_q{}_k{}_h{}x{}_d{}x{}_{}_{}_{}bias_p{}_{}lse", batch, seqlen_q, seqlen_k, heads_q, heads_kv,
                     head_dim_qk, head_dim_v, name_of(data_type), name_of(mask),
                     bias == BiasKind::elementwise ? "" : name_of(bias), dropout, lse ? "" : "no");
}

std::int64_t ShapeSweep::size() const {
  std::int64_t product = 1;
  for (const std::size_t count :
       {axes.batch.size(), axes.seqlen_q.size(), axes.seqlen_k.size(), axes.heads_q.size(), axes.heads_kv.size(),
        axes.head_dim_qk.size(), axes.head_dim_v.size(), axes.data_type.size(), axes.mask.size(), axes.bias.size(),
        axes.dropout.size(), axes.lse.size()})
    if (__builtin_mul_overflow(product, static_cast<std::int64_t>(count), &product))
      return std::numeric_limits<std::int64_t>::max();
  return product;
}

void ShapeSweep::for_each(FunctionRef<void(const AttentionShape&)> visit) const {
  const std::int64_t count = size();
  for (std::int64_t index = 0; index < count; ++index) {
    AttentionShape shape;
    std::int64_t rest = index;
    const auto pick = [&rest](auto& field, const auto& values) {
      field = values[static_cast<std::size_t>(rest) % values.size()];
      rest /= static_cast<std::int64_t>(values.size());
    };
    pick(shape.lse, axes.lse);  // the last axis runs fastest
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

Result<Shard> Shard::parse(std::string_view text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto [slash, first] = std::from_chars(text.data(), end, shard.index);
  if (first == std::errc{} && slash != end && *slash == '/') {
    const auto [last, second] = std::from_chars(slash + 1, end, shard.count);
    if (second == std::errc{} && last == end && shard.index >= 1 && shard.index <= shard.count) return shard;
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no shard", text),
              "I/N with I from 1 to N, for example 1/4");
}

bool Shard::has(const AttentionShape& shape) const {
  return count == 1 || key128(shape.id()).lo % count == index - 1;
}

Result<const ShapeMatrix::Tier*> ShapeMatrix::tier_named(std::string_view name) const {
  const auto found = tiers_.find(name);
  if (found == tiers_.end()) return unknown("tier", name, names_of(tiers_));
  return &found->second;
}

Result<int> ShapeMatrix::timeout_s(std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tier_named(tier));
  return named->timeout_s;
}

Result<std::vector<const ShapeSweep*>> ShapeMatrix::sweeps(std::string_view variant, std::string_view tier) const {
  TS_ASSIGN(const Tier* named, tier_named(tier));
  const auto section_name = variant_sections_.find(variant);
  if (section_name == variant_sections_.end()) return unknown("variant", variant, names_of(variant_sections_));
  const Section& section = sections_.at(section_name->second);
  std::vector<const ShapeSweep*> found;
  for (const std::string& included : named->includes) {
    const auto sweeps = section.find(included);
    if (sweeps == section.end()) continue;  // a tier may add nothing to a section
    for (const ShapeSweep& sweep : sweeps->second) found.push_back(&sweep);
  }
  return found;
}

Result<std::vector<AttentionShape>> ShapeMatrix::shapes(std::string_view variant, std::string_view tier,
                                                        Shard shard) const {
  TS_ASSIGN(const std::vector<const ShapeSweep*> found, sweeps(variant, tier));
  std::vector<AttentionShape> all;
  for (const ShapeSweep* sweep : found)
    sweep->for_each([&](const AttentionShape& shape) {
      if (shard.has(shape)) all.push_back(shape);
    });
  return all;
}

Result<std::vector<AttentionProblem>> load_problems(const std::filesystem::path& path, std::string_view tier,
                                                    std::string_view shard) {
  TS_ASSIGN(const ShapeMatrix matrix, path.empty() ? ShapeMatrix::builtin() : ShapeMatrix::load(path));
  Shard part;
  if (!shard.empty()) {
    TS_ASSIGN(part, Shard::parse(shard));
  }
  TS_ASSIGN(const std::vector<AttentionShape> shapes, matrix.shapes("fwd", tier, part));
  std::vector<AttentionProblem> problems;
  std::unordered_set<std::string> seen;
  for (const AttentionShape& shape : shapes) {
    if (shape.heads_q % shape.heads_kv != 0 || !seen.insert(shape.id()).second) continue;
    problems.push_back({.data_type = shape.data_type,
                        .batch = shape.batch,
                        .heads_q = shape.heads_q,
                        .heads_kv = shape.heads_kv,
                        .seqlen_q = shape.seqlen_q,
                        .seqlen_k = shape.seqlen_k,
                        .head_dim_qk = shape.head_dim_qk,
                        .head_dim_v = shape.head_dim_v,
                        .mask = shape.mask,
                        .bias = shape.bias,
                        .dropout = shape.dropout > 0,
                        .lse = shape.lse});
  }
  return problems;
}

}  // namespace tilesmith
