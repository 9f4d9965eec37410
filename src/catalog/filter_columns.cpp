#include "catalog/filter_columns.hpp"

#include <algorithm>
#include <array>

#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

using Source = FilterColumn::Source;

struct Alias {
  std::string_view name;
  std::string_view field;
  int element = -1;
};

constexpr Alias kAttentionAliases[] = {
    {"hdim_q", "head_dim_qk"},
    {"hdim_v", "head_dim_v"},
    {"vlayout", "v_layout"},
    {"logits", "soft_cap"},
    {"kv_memory_layout", "kv_layout"},
    {"kv_lookup_table", "kv_lookup"},
    {"tile_m0", "tile", 0},
    {"tile_n0", "tile", 1},
    {"tile_k0", "tile", 2},
    {"tile_n1", "tile", 3},
    {"tile_k1", "tile", 4},
    {"tile_k0max", "tile", 5},
    {"tile_bwd6", "tile", 6},
    {"tile_bwd7", "tile", 7},
    {"tile_bwd8", "tile", 8},
    {"wave_m0", "wave", 0},
    {"wave_n0", "wave", 1},
    {"wave_k0", "wave", 2},
    {"wave_m1", "wave", 3},
    {"wave_n1", "wave", 4},
    {"wave_k1", "wave", 5},
    {"wave_m2", "wave", 6},
    {"wave_n2", "wave", 7},
    {"wave_k2", "wave", 8},
    {"warp_m0", "warp", 0},
    {"warp_n0", "warp", 1},
    {"warp_k0", "warp", 2},
    {"warp_m1", "warp", 3},
    {"warp_n1", "warp", 4},
    {"warp_k1", "warp", 5},
    {"warp_m2", "warp", 6},
    {"warp_n2", "warp", 7},
    {"warp_k2", "warp", 8},
    {"pad_s", "pad", 0},
    {"pad_sk", "pad", 1},
    {"pad_d", "pad", 2},
    {"pad_dv", "pad", 3},
    {"tile_tag", "tag"},
    {"num_wave_groups", "wave_groups"},
    {"max_seq_len_q", "max_seqlen_q"},
};
// Composable Kernel says warp for what Tilesmith calls wave, and warp tile for the fragment.
constexpr Alias kMatrixAliases[] = {
    {"tile_m", "tile", 0},
    {"tile_n", "tile", 1},
    {"tile_k", "tile", 2},
    {"wave_m", "wave", 0},
    {"wave_n", "wave", 1},
    {"wave_k", "wave", 2},
    {"warp_m", "wave", 0},
    {"warp_n", "wave", 1},
    {"warp_k", "wave", 2},
    {"warp_tile_m", "warp", 0},
    {"warp_tile_n", "warp", 1},
    {"warp_tile_k", "warp", 2},
    {"pad_m", "pad", 0},
    {"pad_n", "pad", 1},
    {"pad_k", "pad", 2},
    {"vector_a", "vector", 0},
    {"vector_b", "vector", 1},
    {"vector_c", "vector", 2},
    {"num_wave_groups", "wave_groups"},
    {"k_block_per_cu", "block_per_cu"},
};
constexpr Alias kGemmAliases[] = {
    {"data_type", "a"},
    {"dtype_a", "a"},
    {"dtype_b", "b"},
    {"dtype_c", "c"},
    {"dtype_acc", "accumulator"},
    {"variant", "family"},
    {"elementwise_op", "elementwise"},
    {"num_d_tensors", "num_d"},
};
constexpr Alias kConvAliases[] = {
    {"ndim_spatial", "spatial_dims"},         {"ndim", "spatial_dims"},        {"variant", "direction"},
    {"num_groups_to_merge", "groups_merged"}, {"split_image", "large_tensor"}, {"double_smem_buffer", "double_buffer"},
};

template <class S>
void add_fields(std::vector<FilterColumn>& columns, Source source) {
  for (const FieldInfo& field : field_table<S>()) columns.push_back({std::string(field.name), source, &field, -1});
}

template <class S>
void add_aliases(std::vector<FilterColumn>& columns, std::span<const Alias> aliases) {
  for (const Alias& alias : aliases) {
    if (const FieldInfo* field = find_field<S>(alias.field))
      columns.push_back({std::string(alias.name), Source::signature, field, alias.element});
    else if (const FieldInfo* in_algorithm = find_field<Algorithm>(alias.field))
      columns.push_back({std::string(alias.name), Source::algorithm, in_algorithm, alias.element});
  }
}

std::vector<FilterColumn> columns_of(Operation operation) {
  std::vector<FilterColumn> columns;
  switch (operation) {
    case Operation::attention:
      add_fields<AttentionSignature>(columns, Source::signature);
      break;
    case Operation::gemm:
      add_fields<GemmSignature>(columns, Source::signature);
      break;
    case Operation::conv:
      add_fields<ConvSignature>(columns, Source::signature);
      break;
  }
  add_fields<Algorithm>(columns, Source::algorithm);
  columns.push_back({"arch", Source::arch, nullptr, -1});
  columns.push_back({"operation", Source::operation, nullptr, -1});
  columns.push_back({"origin", Source::origin, nullptr, -1});
  columns.push_back({"name", Source::name, nullptr, -1});
  columns.push_back({"gfx_arch", Source::arch, nullptr, -1});
  switch (operation) {
    case Operation::attention:
      add_aliases<AttentionSignature>(columns, kAttentionAliases);
      break;
    case Operation::gemm:
      columns.push_back({"layout", Source::layout, nullptr, -1});
      add_aliases<GemmSignature>(columns, kMatrixAliases);
      add_aliases<GemmSignature>(columns, kGemmAliases);
      break;
    case Operation::conv:
      add_aliases<ConvSignature>(columns, kMatrixAliases);
      add_aliases<ConvSignature>(columns, kConvAliases);
      break;
  }
  return columns;
}

void join_figures(const FieldInfo& field, const void* object, std::string& out) {
  // Figures a kernel does not use are zeros at the end.
  std::size_t count = field.count;
  while (count > 1 && read_field(field, object, count - 1) == 0) --count;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += 'x';
    append_integer(out, read_field(field, object, i));
  }
}

}  // namespace

const std::vector<FilterColumn>& filter_columns(Operation operation) {
  static const std::array<std::vector<FilterColumn>, 3> kColumns = {
      columns_of(Operation::attention), columns_of(Operation::gemm), columns_of(Operation::conv)};
  return kColumns[static_cast<std::size_t>(operation)];
}

const FilterColumn* find_filter_column(Operation operation, std::string_view name) {
  const auto& columns = filter_columns(operation);
  const auto found = std::ranges::find(columns, name, &FilterColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

FilterValue filter_value(const FilterColumn& column, const KernelConfig& config, std::string& buffer) {
  const auto text = [](std::string_view value) { return FilterValue{true, 0, value}; };
  switch (column.source) {
    case Source::arch:
      return text(config.arch.text());
    case Source::operation:
      return text(name_of(config.operation()));
    case Source::origin:
      return text(name_of(config.origin));
    case Source::name:
      return text(buffer = kernel_name(config));
    case Source::layout: {
      const auto& s = std::get<GemmSignature>(config.signature);
      buffer.clear();
      for (const MatrixOrder order : {s.layout_a, s.layout_b, s.layout_c}) buffer += name_of(order);
      return text(buffer);
    }
    case Source::signature:
    case Source::algorithm:
      break;
  }
  const void* object = column.source == Source::algorithm
                           ? static_cast<const void*>(&config.algorithm)
                           : std::visit([](const auto& s) { return static_cast<const void*>(&s); }, config.signature);
  const FieldInfo& field = *column.field;
  if (field.kind == FieldKind::enumeration)
    return text(field.value_names[static_cast<std::size_t>(read_field(field, object))]);
  if (field.kind == FieldKind::list) {
    buffer.clear();
    append_list(buffer, field, object);
    return text(buffer);
  }
  if (field.kind == FieldKind::array && column.element < 0) {
    buffer.clear();
    join_figures(field, object, buffer);
    return text(buffer);
  }
  return {false, read_field(field, object, column.element < 0 ? 0 : static_cast<std::size_t>(column.element)), {}};
}

}  // namespace tilesmith
