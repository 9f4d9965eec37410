// The tensors of one call by name: a case tells what it reads and writes, a device tells where that lies.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "verify/output.hpp"

namespace tilesmith {

/// An input of a call, in the memory of the host.
struct NamedInput {
  std::string name;
  const void* data = nullptr;
  std::size_t bytes = 0;
  const void* after = nullptr;  ///< what calls leave there, where that is not what they find
};

/// Where the tensors of a call lie: all of them on the host or all on one device.
class CallMemory {
 public:
  CallMemory() = default;
  /// The inputs where they lie on the host.
  explicit CallMemory(std::span<const NamedInput> inputs) {
    for (const NamedInput& input : inputs) add_input(input.name, input.bytes > 0 ? input.data : nullptr);
  }

  void add_input(std::string name, const void* data) { inputs_[std::move(name)] = data; }
  void add_output(const OutputSpec& spec, void* data) { outputs_[spec.name] = {spec, data}; }

  /// Null for an input that the call does not read.
  template <class T = void>
  [[nodiscard]] const T* input(std::string_view name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? nullptr : static_cast<const T*>(found->second);
  }
  /// Null for an output that the call does not write.
  template <class T = void>
  [[nodiscard]] T* output(std::string_view name) const {
    const auto found = outputs_.find(name);
    return found == outputs_.end() ? nullptr : static_cast<T*>(found->second.data);
  }
  /// How an output lies in memory; null for an output that the call does not write.
  [[nodiscard]] const OutputSpec* output_spec(std::string_view name) const {
    const auto found = outputs_.find(name);
    return found == outputs_.end() ? nullptr : &found->second.spec;
  }

 private:
  struct Output {
    OutputSpec spec;
    void* data = nullptr;
  };

  std::map<std::string, const void*, std::less<>> inputs_;
  std::map<std::string, Output, std::less<>> outputs_;
};

}  // namespace tilesmith
