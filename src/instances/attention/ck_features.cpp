#include "instances/attention/ck_features.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilesmith {
namespace {

using Subject = AmdAttentionSubject;

const FamilyProducts& products_of(const AmdAttentionQuery& query) {
  switch (query.mode) {
    case EnumerationMode::exhaustive:
      return query.spec.exhaustive;
    case EnumerationMode::tables:
      return query.spec.tables.products;
    case EnumerationMode::rules:
    case EnumerationMode::sound:
      break;
  }
  return query.spec.rules;
}

/// An exhaustive list has no products of its own for the families whose tiles are fixed: those are listed by the rules.
const std::vector<AttentionProduct>& products_of(const AmdAttentionQuery& query, AttentionFamily family) {
  const auto& own = products_of(query)[static_cast<std::size_t>(family)];
  return own.empty() ? query.spec.rules[static_cast<std::size_t>(family)] : own;
}

bool walks_raw_product(const AmdAttentionQuery& query, AttentionFamily family) {
  return query.mode == EnumerationMode::exhaustive && !query.spec.exhaustive[static_cast<std::size_t>(family)].empty();
}

bool matches(const AttentionProduct& product, const AmdAttentionQuery& query, DataType type, HeadDims dims,
             TileTag tag) {
  if (std::ranges::find(product.data_types, type) == product.data_types.end()) return false;
  if (!product.head_dims.empty() && std::ranges::find(product.head_dims, dims) == product.head_dims.end()) return false;
  if (!product.tags.empty() && std::ranges::find(product.tags, tag) == product.tags.end()) return false;
  return has_capability(query.chip, product.needs);
}

/// Allow-lists replace the values of an exhaustive product, in the order of their names (flags: off, on).
FieldChoice replaced_by(const FieldChoice& axis, const FieldChoice& allowed) {
  FieldChoice out{axis.field, allowed.values};
  std::ranges::sort(out.values, [&](std::int64_t a, std::int64_t b) {
    if (axis.field->kind != FieldKind::enumeration) return a < b;
    return axis.field->value_names[static_cast<std::size_t>(a)] < axis.field->value_names[static_cast<std::size_t>(b)];
  });
  return out;
}

std::vector<FieldChoice> axes_of(const AttentionProduct& product, const AmdAttentionQuery& query,
                                 AttentionFamily family) {
  std::vector<FieldChoice> axes = product.axes;
  if (walks_raw_product(query, family))
    for (FieldChoice& axis : axes)
      if (const FieldChoice* allowed = query.sweep.allowed_of(family, axis.field->name))
        axis = replaced_by(axis, *allowed);
  return axes;
}

std::vector<AttentionProduct::Kernel> kernels_of(const AttentionProduct& product, const AmdAttentionQuery& query,
                                                 AttentionFamily family) {
  const FieldChoice* allowed = walks_raw_product(query, family) ? query.sweep.allowed_of(family, "pipeline") : nullptr;
  if (allowed == nullptr) return product.kernels;
  std::vector<AttentionProduct::Kernel> out;
  for (const std::int64_t pipeline : replaced_by(*allowed, *allowed).values) {
    out.push_back(product.kernels.front());
    out.back().pipeline = static_cast<Pipeline>(pipeline);
  }
  return out;
}

bool wanted(const AttentionProduct::Kernel& kernel, const AttentionFeature& feature, HeadDims dims, int receipt) {
  if (!kernel.head_dims.empty() && std::ranges::find(kernel.head_dims, dims) == kernel.head_dims.end()) return false;
  if (std::ranges::find(kernel.head_dims_not, dims) != kernel.head_dims_not.end()) return false;
  if (!kernel.receipts.empty() && std::ranges::find(kernel.receipts, receipt) == kernel.receipts.end()) return false;
  return holds(kernel.when, feature);
}

constexpr Rule<Subject> kRules[] = {
    {"soft_cap_excludes_bias", "the logits soft cap and a bias are not built together",
     [](const Subject& s) { return !s.signature().soft_cap || s.signature().bias == BiasKind::none; },
     [](const Subject& s) {
       return fmt::format("soft_cap {}, bias {}", s.signature().soft_cap, name_of(s.signature().bias));
     }},
    {"dbias_needs_bias", "a gradient of the bias needs a bias given element by element",
     [](const Subject& s) { return !s.signature().dbias || s.signature().bias == BiasKind::elementwise; },
     [](const Subject& s) {
       return fmt::format("dbias {}, bias {}", s.signature().dbias, name_of(s.signature().bias));
     }},
    {"page_of_one_is_linear",
     "pages of one token lie linearly, since they cannot hold the vectors of keys that the other layout stores",
     [](const Subject& s) {
       return s.signature().family != AttentionFamily::batch_prefill || s.signature().page_size != 1 ||
              s.signature().kv_layout == KvLayout::linear;
     },
     [](const Subject& s) {
       return fmt::format("page_size {}, kv_layout {}", s.signature().page_size, name_of(s.signature().kv_layout));
     }},
    {"scaled_page_holds_a_tile", "with scales per block of K and V a tile of keys lies in one page",
     [](const Subject& s) {
       return s.signature().qscale != QuantScale::kv_blockscale || s.signature().page_size >= s.n0();
     },
     [](const Subject& s) {
       return fmt::format("qscale {}, page_size {}, n0 {}", name_of(s.signature().qscale), s.signature().page_size,
                          s.n0());
     }},
    {"group_mode_is_padded",
     "in group mode sequences end inside a tile, so a length that differs between sequences must be "
     "padded",
     [](const Subject& s) {
       return s.signature().mode == SequenceMode::batch ||
              group_mode_is_padded(s.signature().family, s.algorithm().pad);
     },
     [](const Subject& s) {
       return fmt::format("mode {}, pad of query length {}, of key length {}", name_of(s.signature().mode),
                          s.algorithm().pad[0], s.algorithm().pad[1]);
     }},
};

}  // namespace

std::span<const Rule<AmdAttentionSubject>> amd_attention_feature_rules() {
  return kRules;
}

bool group_mode_is_padded(AttentionFamily family, const std::array<std::uint8_t, 4>& pad) {
  switch (family) {
    case AttentionFamily::fwd:
    case AttentionFamily::fwd_splitkv:
    case AttentionFamily::fwd_pagedkv:
      return pad[0] == 1 && pad[1] == 1;
    case AttentionFamily::fwd_splitkv_combine:
    case AttentionFamily::bwd_dot_do_o:
    case AttentionFamily::bwd_convert_dq:
      return pad[0] == 1;
    default:
      return true;
  }
}

AttentionFeature feature_of(const KernelConfig& config) {
  return {config.attention(), config.algorithm.pipeline, config.algorithm.pad};
}

std::vector<DataType> amd_attention_data_types(const AmdAttentionQuery& query, AttentionFamily family) {
  std::vector<DataType> types;
  if (query.chip.attention) types = query.chip.attention->data_types;
  const auto keep_only = [&types](const std::vector<DataType>& wanted_types) {
    std::erase_if(types, [&](DataType type) { return std::ranges::find(wanted_types, type) == wanted_types.end(); });
  };
  if (query.sweep.data_types) {
    keep_only(*query.sweep.data_types);
  } else if (query.mode == EnumerationMode::tables) {
    for (const auto& [listed, shipped] : query.spec.tables.data_types)
      if (listed == family) keep_only(shipped);
  }
  std::ranges::sort(types, {}, [](DataType type) { return name_of(type); });
  return types;
}

std::vector<HeadDims> amd_product_head_dims(const AmdAttentionQuery& query, AttentionFamily family, DataType type) {
  std::vector<HeadDims> out;
  for (const AttentionProduct& product : products_of(query, family)) {
    if (std::ranges::find(product.data_types, type) == product.data_types.end()) continue;
    for (const HeadDims dims : product.head_dims)
      if (std::ranges::find(out, dims) == out.end()) out.push_back(dims);
  }
  std::ranges::sort(out);
  return out;
}

std::vector<AttentionFeature> amd_attention_features(const AmdAttentionQuery& query, AttentionFamily family,
                                                     DataType type, HeadDims dims, TileTag tag) {
  std::vector<AttentionFeature> out;
  const bool raw = walks_raw_product(query, family);
  // The rules that do not look at the tile; kv_blockscale and group mode are asked per tile and mode.
  const auto feature_rules = std::span(kRules).first(3);
  for (const AttentionProduct& product : products_of(query, family)) {
    if (!matches(product, query, type, dims, tag)) continue;
    const std::vector<FieldChoice> axes = axes_of(product, query, family);
    const std::vector<AttentionProduct::Kernel> kernels = kernels_of(product, query, family);
    std::vector<std::size_t> at(axes.size(), 0);
    for (bool more = true; more;) {
      AttentionFeature feature;
      const auto set_axes = [&] {
        for (std::size_t i = 0; i < axes.size(); ++i) write_field(*axes[i].field, &feature, axes[i].values[at[i]]);
      };
      feature.signature.family = family;
      feature.signature.data_type = type;
      feature.signature.head_dim_qk = dims[0];
      feature.signature.head_dim_v = dims[1];
      for (const FieldChoice& fixed : product.fixed) write_field(*fixed.field, &feature, fixed.values.front());
      set_axes();
      feature.signature.dropout |= feature.signature.dropout_variant > DropoutVariant::no;
      for (const AttentionProduct::Kernel& kernel : kernels) {
        feature.pipeline = kernel.pipeline;
        if (!wanted(kernel, feature, dims, query.receipt)) continue;
        for (const auto& pad : kernel.pads) {
          feature.pad = pad;
          set_axes();  // an axis may be a pad
          const KernelConfig config{.origin = Origin::ck,
                                    .arch = query.chip.arch,
                                    .signature = feature.signature,
                                    .algorithm = {.pipeline = feature.pipeline, .pad = feature.pad}};
          if (!raw && first_refusal(feature_rules, Subject{config, query.chip, query.spec}) != nullptr) continue;
          if (!raw && !query.spec.receipt_keeps(query.receipt, feature)) continue;
          out.push_back(feature);
        }
      }
      more = false;
      for (std::size_t i = axes.size(); i-- > 0 && !more;) {
        more = ++at[i] < axes[i].values.size();
        if (!more) at[i] = 0;
      }
    }
  }
  return out;
}

}  // namespace tilesmith
