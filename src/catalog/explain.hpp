// `tilesmith explain` as a library: what a name means, which rule accepts or refuses it on an architecture and by which
// figures, and the nearest instance that is built and sound.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "instances/rule.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct Explanation {
  KernelConfig config;              ///< complete, for the architecture
  std::vector<RuleVerdict> listed;  ///< why it is in the vendor's list, or not
  std::vector<RuleVerdict>
      sound;  ///< what its validator and the silicon say; empty where there is nothing beyond the list
  /// Own kernels: why no list holds it although nothing refuses it. Dispatch and `build` make such kernels on demand.
  std::string on_demand;
  std::vector<std::string> receipts;   ///< attention: the receipts whose lists have it, with their profiles
  std::optional<std::string> nearest;  ///< the name of the nearest instance that is listed and sound; absent when there
                                       ///< is none or it is itself
  std::vector<std::string> changes;    ///< what differs in it: "pad 0011 -> 1111"

  [[nodiscard]] bool is_listed() const;
  [[nodiscard]] bool is_sound() const;  ///< listed or made on demand, and nothing speaks against it
};

/// Every architecture whose backend could have such a kernel gets an explanation, or the one that is named.
[[nodiscard]] Result<std::vector<Explanation>> explain(std::string_view name, std::string_view arch = {});

[[nodiscard]] std::string explanation_text(const Explanation& explanation);
/// One JSON document for all.
[[nodiscard]] std::string explanations_json(const std::vector<Explanation>& explanations);

}  // namespace tilesmith
