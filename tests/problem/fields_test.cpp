// What follows from the fields of every operation's problem.
#include "problem/fields.hpp"
#include "problem/attention_backward/shared_fields.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "problem/attention_backward/shared_fields.hpp"
#include "problem/json.hpp"
#include "problem/operations.hpp"

namespace tilesmith {
namespace {

/// Another value of the field's type, drawn at random. Values need not make sense together.
template <class F>
void draw(F& value, std::mt19937_64& random) {
  if constexpr (FlagField<F>) {
    value = random() % 2 != 0;
  } else if constexpr (EnumField<F>) {
    value = static_cast<F>(random() % enum_size<F>());
  } else if constexpr (ListField<F>) {
    value = {};
    for (std::uint64_t i = random() % (F::kMax + 1); i > 0; --i)
      value.push_back(static_cast<typename F::value_type>(1 + random() % (enum_size<typename F::value_type>() - 1)));
  } else {
    value = static_cast<F>(random() % 5 == 0 ? random() >> 1 : random() % 100);
  }
}

template <class Problem>
Problem random_problem(std::mt19937_64& random) {
  Problem problem;
  Problem::fields(problem, [&](std::string_view, auto& value) {
    if (random() % 3 == 0) draw(value, random);
  });
  return problem;
}

TEST(ProblemFields, EachOneCountsInHashIdentityAndEquality) {
  for_each_operation([]<class Op>(Op) {
    using Problem = typename Op::Problem;
    std::mt19937_64 random(1);
    Problem usual;
    std::set<std::uint64_t> hashes{hash_of(usual)};
    std::set<std::string> identities{identity_of(usual)};
    EXPECT_EQ(identity_of(usual), std::string(Op::kName) + ";");
    Problem::fields(usual, [&](std::string_view name, const auto&) {
      Problem other, again;
      while (other == usual)
        Problem::fields(other, [&](std::string_view each, auto& value) {
          if (each == name) draw(value, random);
        });
      again = other;
      EXPECT_TRUE(hashes.insert(hash_of(other)).second) << Op::kName << ": " << name;
      EXPECT_TRUE(identities.insert(identity_of(other)).second) << Op::kName << ": " << name;
      EXPECT_NE(identity_of(other).find(std::string(name) + "="), std::string::npos) << identity_of(other);
      EXPECT_EQ(hash_of(other), hash_of(again));
    });
  });
}

TEST(ProblemFields, EqualExactlyWhereTheIdentityIs) {
  for_each_operation([]<class Op>(Op) {
    using Problem = typename Op::Problem;
    std::mt19937_64 random(2);
    std::vector<Problem> problems;
    for (int i = 0; i < 100; ++i) problems.push_back(random_problem<Problem>(random));
    problems.push_back(problems.front());
    for (const Problem& x : problems)
      for (const Problem& y : problems) {
        EXPECT_EQ(x == y, identity_of(x) == identity_of(y));
        EXPECT_TRUE(x != y || hash_of(x) == hash_of(y));
      }
  });
}

TEST(ProblemFields, JsonHoldsTheWholeProblem) {
  for_each_operation([]<class Op>(Op) {
    using Problem = typename Op::Problem;
    std::mt19937_64 random(3);
    for (int i = 0; i < 200; ++i) {
      const auto problem = random_problem<Problem>(random);
      const nlohmann::json json = to_json(problem);
      const auto again = problem_from_json<Problem>(json);
      ASSERT_TRUE(again) << again.error().text();
      EXPECT_EQ(*again, problem) << json.dump();
      EXPECT_EQ(operation_name_of(AnyProblem(problem)), Op::kName);
    }
    EXPECT_EQ(problem_from_json<Problem>(nlohmann::json::object()).value(), Problem{});
    const auto unknown = problem_from_json<Problem>({{"btach", 1}});
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().text().find("$.btach"), std::string::npos) << unknown.error().text();
    EXPECT_NE(unknown.error().text().find("batch"), std::string::npos) << unknown.error().text();
    EXPECT_FALSE(problem_from_json<Problem>({{"batch", "2"}}));
  });
}

/// A problem before and after it gained a field: a key that was written down stays valid.
struct Before {
  std::int64_t m = 1;
  bool beta = false;
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("m", self.m);
    visit("beta", self.beta);
  }
};
struct After {
  std::int64_t m = 1;
  DataType type = DataType::bf16;
  bool beta = false;
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("m", self.m);
    visit("type", self.type);
    visit("beta", self.beta);
  }
};
/// Its list lacks `beta`.
struct Incomplete {
  std::int64_t m = 1;
  bool beta = false;
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("m", self.m);
  }
};
static_assert(lists_every_field<Before> && lists_every_field<After> && !lists_every_field<Incomplete>);

TEST(ProblemFields, ANewFieldWithADefaultChangesNoIdentity) {
  EXPECT_EQ(differences_from_default(Before{.m = 5, .beta = true}),
            differences_from_default(After{.m = 5, .beta = true}));
  EXPECT_NE(differences_from_default(After{.m = 5}), differences_from_default(After{.m = 5, .type = DataType::fp32}));
}

/// Every field with another value than its default.
template <class Problem>
Problem with_other_values() {
  Problem problem;
  Problem::fields(problem, [](std::string_view, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, bool>)
      field = !field;
    else
      field = static_cast<Field>(static_cast<int>(field) + 1);
  });
  return problem;
}

TEST(ProblemFields, BackwardAndForwardShareWhatBothHave) {
  const auto expect_shared = []<class From, class To>(const From& from, const To& to) {
    // A field's value in another problem, where that has the field.
    const auto expect_as_in = [](const auto& problem, std::string_view name, const auto& value) {
      bool found = false;
      std::remove_cvref_t<decltype(problem)>::fields(problem, [&](std::string_view other, const auto& there) {
        if constexpr (std::is_same_v<decltype(there), decltype(value)>) {
          if (name != other) return;
          found = true;
          EXPECT_EQ(value, there) << name;
        }
      });
      return found;
    };
    std::size_t shared = 0;
    To::fields(to, [&](std::string_view name, const auto& value) {
      if (expect_as_in(from, name, value))
        ++shared;
      else
        expect_as_in(To(), name, value);
    });
    EXPECT_EQ(shared, 20u);
  };
  const auto forward = with_other_values<AttentionProblem>();
  const auto backward = with_other_values<AttentionBackwardProblem>();
  expect_shared(forward, with_shared_fields<AttentionBackwardProblem>(forward));
  expect_shared(backward, with_shared_fields<AttentionProblem>(backward));
}

}  // namespace
}  // namespace tilesmith
