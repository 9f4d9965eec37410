// The instances of one library, by name: what the generated dispatch header registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace ck_tile {
struct stream_config;
}

namespace tilesmith_ck {

/// A launch that a kernel does not take, or a device pass of another chip: no time in milliseconds is negative.
constexpr float kRefused = -1.0f;

/// One kernel. Record says which calls it serves; Arguments are those of a call.
template <class Record, class Arguments>
struct Instance {
  const char* name;  ///< Composable Kernel's name, which several records may share
  const char* key;   ///< 32 hexadecimal digits: the digest of the whole record
  const char* arch;  ///< for example gfx950
  Record record;
  /// Enqueues the kernel. With timing in the stream's configuration: the mean time in milliseconds; without: 0.
  float (*run)(const Arguments&, const ck_tile::stream_config&);
  /// Bytes of device memory that a call needs beside its tensors (Arguments::workspace); null: none.
  std::size_t (*workspace)(const Arguments&) = nullptr;

  /// Whether the kernel computes this call on a device of this architecture ("gfx950:sramecc+:xnack-").
  bool supports(const Arguments& arguments, const char* device) const {
    const std::size_t length = std::strlen(arch);
    const bool same_chip =
        std::strncmp(device, arch, length) == 0 && (device[length] == '\0' || device[length] == ':');
    return same_chip && serves(record, arguments);
  }
};

/// Instances in the order in which they are tried: smaller head dims first, then in the order of their registration.
template <class Instance>
class Registry {
 public:
  void add(const Instance& instance) {
    const auto after = [](const Instance* a, const Instance* b) { return comes_before(a->record, b->record); };
    instances_.insert(std::upper_bound(instances_.begin(), instances_.end(), &instance, after), &instance);
  }
  template <class Arguments>
  const Instance* find(const Arguments& arguments, const char* device) const {
    for (const Instance* each : instances_)
      if (each->supports(arguments, device)) return each;
    return nullptr;
  }
  const Instance* find_name(const char* name) const {
    for (const Instance* each : instances_)
      if (std::strcmp(each->name, name) == 0) return each;
    return nullptr;
  }
  const std::vector<const Instance*>& instances() const { return instances_; }

 private:
  std::vector<const Instance*> instances_;
};

}  // namespace tilesmith_ck
