#include "dispatch/workspace.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace tilesmith {

std::size_t WorkspaceLayout::add(std::string name, std::size_t bytes, std::size_t alignment) {
  const std::size_t offset = (bytes_ + alignment - 1) / alignment * alignment;
  if (bytes == 0) return offset;
  regions_.push_back({.name = std::move(name), .offset = offset, .bytes = bytes});
  bytes_ = offset + bytes;
  return offset;
}

void WorkspaceLayout::add_library_memory(std::string name, std::size_t bytes) {
  regions_.push_back({.name = std::move(name), .bytes = bytes, .library_only = true});
}

void WorkspaceLayout::tell(PlanInfo& info) const {
  info.workspace = regions_;
  info.workspace_bytes = bytes_;
}

Status check_workspace(const void* workspace) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % WorkspaceLayout::kAlignment == 0) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("the workspace at {} is not aligned", workspace),
              fmt::format("a multiple of {} bytes", WorkspaceLayout::kAlignment));
}

}  // namespace tilesmith
