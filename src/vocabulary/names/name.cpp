#include "vocabulary/names/name.hpp"

#include "vocabulary/names/ck.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

std::string kernel_name(const KernelConfig& config) {
  return config.origin == Origin::own ? native_name(config) : ck_name(config);
}

Result<KernelConfig> parse_kernel_name(std::string_view name) {
  return is_ck_name(name) ? parse_ck_name(name) : parse_native_name(name);
}

}  // namespace tilesmith
