// What explain says of a kernel and what the list holds are one fact, of random neighbours of listed kernels too.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "catalog/explain.hpp"
#include "catalog/listing.hpp"
#include "spec/architectures.hpp"
#include "thorough.hpp"
#include "vocabulary/field_table.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

/// Of a random field, the other's value; of a figure now and then half, double or another one instead.
template <class Struct>
void change(Struct& mine, const Struct& other, Random& random) {
  const std::vector<FieldInfo>& fields = field_table<Struct>();
  const FieldInfo& field = fields[below(random, fields.size())];
  const std::size_t at = below(random, field.count);
  const std::int64_t value = read_field(field, &mine, at);
  if (field.kind == FieldKind::array && value > 0 && below(random, 2) == 0) {
    const std::int64_t changed[] = {value / 2, value * 2, value + 8, value - 1};
    write_field(field, &mine, changed[below(random, 4)], at);
    return;
  }
  const std::size_t bytes = std::size_t{field.size} * field.count;
  std::memcpy(reinterpret_cast<unsigned char*>(&mine) + field.offset,
              reinterpret_cast<const unsigned char*>(&other) + field.offset, bytes);
}

KernelConfig neighbour(KernelConfig config, const KernelConfig& other, Random& random) {
  for (std::size_t i = 1 + below(random, 2); i > 0; --i) {
    if (below(random, 2) == 0) {
      change(config.algorithm, other.algorithm, random);
    } else {
      std::visit(
          [&](auto& signature) {
            change(signature, std::get<std::remove_cvref_t<decltype(signature)>>(other.signature), random);
          },
          config.signature);
    }
  }
  return config;
}

/// Some kernels of a list, each equally likely.
std::vector<KernelConfig> sample(const Listing& listing, std::size_t size, Random& random) {
  std::vector<KernelConfig> taken;
  std::size_t seen = 0;
  ListStatistics statistics;
  EXPECT_TRUE(listing.walk(
      [&](const KernelConfig& config) {
        ++seen;
        if (taken.size() < size)
          taken.push_back(config);
        else if (const std::size_t at = below(random, seen); at < size)
          taken[at] = config;
        return true;
      },
      statistics));
  return taken;
}

struct Case {
  std::string arch;
  Operation operation;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& arch : testing::thorough()
                                     ? known_archs().value()
                                     : std::vector<std::string>{"gfx942", "gfx1201", "sm_90a", "x86_64_v4"})
    for (const Operation operation : {Operation::attention, Operation::gemm, Operation::conv})
      if (testing::thorough() || arch != "gfx1201" || operation != Operation::attention)
        all.push_back({arch, operation});
  return all;
}

class ExplainProperty : public ::testing::TestWithParam<Case> {};

TEST_P(ExplainProperty, AgreesWithTheListOnRandomNeighbours) {
  const auto& [arch, operation] = GetParam();
  const bool native = !arch.starts_with("gfx");
  const bool costly = !native && operation == Operation::attention;  // to explain: the nearest of a long list
  const auto listing = Listing::prepare({.arch = arch,
                                         .operation = operation,
                                         .variant = native && operation == Operation::gemm ? "all" : "",
                                         .layout = native ? "all" : "rcr"});
  if (!listing) GTEST_SKIP() << listing.error().text();

  Random random(7);
  const std::vector<KernelConfig> listed = sample(*listing, testing::thorough() ? 200 : costly ? 2 : 10, random);
  ASSERT_FALSE(listed.empty());
  struct Verdict {
    Explanation explanation;
    bool found = false;
  };
  std::vector<Verdict> asked;
  std::size_t nameless = 0;
  const auto ask = [&](const KernelConfig& config) {
    const auto explanations = explain(kernel_name(config), arch);
    if (!explanations || explanations->empty()) {
      ++nameless;  // no kernel has such a name
      return;
    }
    asked.push_back({explanations->front()});
  };
  for (const KernelConfig& config : listed) ask(config);
  EXPECT_EQ(nameless, 0u) << "every listed kernel has a name that explain knows";
  EXPECT_EQ(asked.size(), listed.size());
  for (std::size_t i = 0; i < (testing::thorough() ? 400u : costly ? 3u : 60u); ++i)
    ask(neighbour(listed[below(random, listed.size())], listed[below(random, listed.size())], random));

  ListStatistics statistics;
  ASSERT_TRUE(listing->walk(
      [&](const KernelConfig& config) {
        for (Verdict& verdict : asked) verdict.found = verdict.found || verdict.explanation.config == config;
        return true;
      },
      statistics));
  std::size_t refused = 0;
  for (const Verdict& verdict : asked) {
    EXPECT_EQ(verdict.explanation.is_listed(), verdict.found) << explanation_text(verdict.explanation);
    refused += !verdict.found;
  }
  // A name of Composable Kernel's leaves little to change.
  if (native) {
    EXPECT_GT(refused, 0u);
  }
}

/// Any value that a field may have.
template <class Struct>
void set_anything(Struct& mine, Random& random) {
  const std::vector<FieldInfo>& fields = field_table<Struct>();
  const FieldInfo& field = fields[below(random, fields.size())];
  const std::size_t at = below(random, field.count);
  std::int64_t value = 0;
  if (field.kind == FieldKind::flag) {
    value = static_cast<std::int64_t>(below(random, 2));
  } else if (!field.value_names.empty()) {
    value = static_cast<std::int64_t>(below(random, field.value_names.size()));
  } else {
    const std::int64_t most = (std::int64_t{1} << (8 * field.size - (field.is_signed ? 1 : 0))) - 1;
    const std::int64_t values[] = {0, 1, most, field.is_signed ? -1 : 3, static_cast<std::int64_t>(below(random, 300))};
    value = std::min(values[below(random, 5)], most);
  }
  write_field(field, &mine, value, at);
}

TEST_P(ExplainProperty, BearsAnyConfig) {
  const auto& [arch, operation] = GetParam();
  const bool costly = arch.starts_with("gfx") && operation == Operation::attention;
  const auto listing = Listing::prepare({.arch = arch, .operation = operation});
  if (!listing) GTEST_SKIP() << listing.error().text();
  Random random(11);
  const std::vector<KernelConfig> listed = sample(*listing, 50, random);
  std::size_t explained = 0;
  for (int i = 0; i < (costly ? 4 : 200) * (testing::thorough() ? 20 : 1); ++i) {
    KernelConfig config = listed[below(random, listed.size())];
    for (std::size_t changes = 1 + below(random, 6); changes > 0; --changes) {
      set_anything(config.algorithm, random);
      if (below(random, 3) == 0)
        std::visit([&](auto& signature) { set_anything(signature, random); }, config.signature);
    }
    const auto explanations = explain(kernel_name(config), arch);
    if (!explanations) continue;  // a name that no kernel has
    for (const Explanation& each : *explanations) EXPECT_FALSE(explanation_text(each).empty());
    ++explained;
  }
  EXPECT_GT(explained, 0u);
}

INSTANTIATE_TEST_SUITE_P(Archs, ExplainProperty, ::testing::ValuesIn(cases()), [](const auto& each) {
  return each.param.arch + "_" + std::string(name_of(each.param.operation));
});

}  // namespace
}  // namespace tilesmith
