// Rules: small named predicates over a config and the facts about its chip. Enumeration keeps what every rule accepts;
// `explain` asks each rule for its verdict and the figures it compared. There is one evaluator, so the two cannot
// disagree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith {

/// `Subject` is what the rules of one operation family look at: a config and its chip's facts. Every rule, and its
/// figures, must bear any config, also one that the rules before it refuse: explain asks them all.
template <class Subject>
struct Rule {
  std::string_view name;   ///< lower_snake, unique in its family
  std::string_view about;  ///< one sentence: what the rule asks, and why
  bool (*accepts)(const Subject&);
  std::string (*figures)(const Subject&);  ///< the figures compared: "scratch 1.2 MiB, half of L2 is 0.5 MiB"
};

struct RuleVerdict {
  std::string_view rule;
  std::string_view about;
  bool accepted = false;
  std::string figures;
};

/// The first rule that refuses, or null.
template <class Subject>
[[nodiscard]] const Rule<Subject>* first_refusal(std::span<const Rule<Subject>> rules, const Subject& subject) {
  for (const Rule<Subject>& rule : rules)
    if (!rule.accepts(subject)) return &rule;
  return nullptr;
}

template <class Subject>
[[nodiscard]] std::vector<RuleVerdict> verdicts(std::span<const Rule<Subject>> rules, const Subject& subject) {
  std::vector<RuleVerdict> out;
  out.reserve(rules.size());
  for (const Rule<Subject>& rule : rules)
    out.push_back({rule.name, rule.about, rule.accepts(subject), rule.figures(subject)});
  return out;
}

}  // namespace tilesmith
