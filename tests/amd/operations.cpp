#include "amd/operations.hpp"

#include <unordered_map>

namespace tilesmith::amdgpu {
namespace {

const std::unordered_map<std::string_view, const Operation*>& all_operations() {
  static const auto all = [] {
    std::unordered_map<std::string_view, const Operation*> map;
    for (const std::span<const Operation> group :
         {scalar_operations(), program_flow_operations(), integer_operations(), float_operations(),
          division_operations(), compare_operations(), conversion_operations(), packed_operations(),
          cross_lane_operations(), scalar_memory_operations(), global_memory_operations(), local_memory_operations(),
          matrix_operations(), wave_matrix_operations()})
      for (const Operation& operation : group) map.emplace(operation.mnemonic, &operation);
    return map;
  }();
  return all;
}

}  // namespace

const Operation* find_operation(std::string_view mnemonic) {
  const auto found = all_operations().find(mnemonic);
  return found == all_operations().end() ? nullptr : found->second;
}

std::size_t operation_count() {
  return all_operations().size();
}

}  // namespace tilesmith::amdgpu
