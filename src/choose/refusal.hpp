// What choosing passed over: a config of the problem's space, and the first rule, or other reason, that refused it.
//
// Reasons that are no rules have names of their own:
//   suits_shape           the kernel computes no problem of these sizes or this alignment
//   first_for             the tile table's row is the first choice for problems of other sizes alone
//   wider_accesses_suit   the same kernel with wider accesses is a candidate
//   prefetch_is_promised  the same kernel that reads B early is a candidate
//   blocks_share_tiles    sharing tiles among blocks changes nothing for these sizes
//   writes_no_dalibi      the kernel writes no gradient of ALiBi's slopes, and the problem wants it
//   reads_packed_panels   the kernel reads B in another form than the problem's packed B
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.hpp"
#include "choose/candidate.hpp"
#include "instances/rule.hpp"

namespace tilesmith {

struct Refusal {
  KernelConfig config;
  std::string_view rule;  ///< the rule's name, or the reason's
  std::string figures;    ///< what it compared
};

/// Gathers the refusals of a space; a config that is a candidate, or was refused before, is left out.
class RefusalList {
 public:
  explicit RefusalList(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) seen_.insert(key_of(candidate.recipe.main()));
  }

  void add(const KernelConfig& config, std::string_view rule, std::string figures) {
    if (seen_.insert(key_of(config)).second) refusals_.push_back({config, rule, std::move(figures)});
  }

  template <class Subject>
  void add(const Rule<Subject>& rule, const Subject& subject) {
    add(subject.config, rule.name, rule.figures(subject));
  }

  [[nodiscard]] std::vector<Refusal> take() { return std::move(refusals_); }

 private:
  std::set<Key128> seen_;
  std::vector<Refusal> refusals_;
};

}  // namespace tilesmith
