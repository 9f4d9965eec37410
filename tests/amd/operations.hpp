// The instructions that the interpreter knows, by mnemonic: each group in a file of its own.
#pragma once

#include <span>
#include <string_view>

#include "amd/instruction.hpp"

namespace tilesmith::amdgpu {

std::span<const Operation> scalar_operations();
std::span<const Operation> program_flow_operations();
std::span<const Operation> integer_operations();
std::span<const Operation> float_operations();
std::span<const Operation> division_operations();
std::span<const Operation> compare_operations();
std::span<const Operation> conversion_operations();
std::span<const Operation> packed_operations();
std::span<const Operation> cross_lane_operations();
std::span<const Operation> scalar_memory_operations();
std::span<const Operation> global_memory_operations();
std::span<const Operation> local_memory_operations();
std::span<const Operation> matrix_operations();
std::span<const Operation> wave_matrix_operations();

/// Of a mnemonic without its encoding; null: it is not known.
[[nodiscard]] const Operation* find_operation(std::string_view mnemonic);
/// All of them.
[[nodiscard]] std::size_t operation_count();

}  // namespace tilesmith::amdgpu
