// Parity with Composable Kernel: counts and both digests of every list in data/ck_attention_parity.csv.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "instances/attention/ck.hpp"
#include "instances/name_list.hpp"
#include "thorough.hpp"

namespace tilesmith {
namespace {

struct Row {
  std::string arch, variant, mode, sorted, ordered;
  int receipt = 0;
  std::size_t names = 0;
};

std::vector<Row> rows() {
  std::ifstream in(TILESMITH_SOURCE_DIR "/tests/instances/data/ck_attention_parity.csv");
  std::string line;
  std::getline(in, line);
  std::vector<Row> out;
  while (std::getline(in, line)) {
    std::stringstream fields(line);
    Row row;
    std::string receipt, names;
    std::getline(fields, row.arch, ',');
    std::getline(fields, row.variant, ',');
    std::getline(fields, receipt, ',');
    std::getline(fields, row.mode, ',');
    std::getline(fields, names, ',');
    std::getline(fields, row.sorted, ',');
    std::getline(fields, row.ordered, ',');
    row.receipt = std::stoi(receipt);
    row.names = std::stoul(names);
    out.push_back(row);
  }
  return out;
}

TEST(AmdAttentionParity, EveryListOfTheTable) {
  const std::vector<Row> table = rows();
  ASSERT_EQ(table.size(), 102u);
  ASSERT_TRUE(amd_attention_spec().has_value()) << amd_attention_spec().error().text();
  testing::NameList list;
  for (const Row& row : table) {
    const auto chip = find_amd_chip(row.arch);
    ASSERT_TRUE(chip.has_value()) << chip.error().text();
    AmdAttentionQuery query{.chip = **chip, .spec = *amd_attention_spec(), .receipt = row.receipt};
    if (row.mode == "exhaustive_fp16_h128") {
      query.mode = EnumerationMode::exhaustive;
      query.head_dims = {{128, 128}};
      query.sweep.data_types = {{DataType::fp16}};
    }
    list.clear();
    enumerate_amd_attention(query, *parse_enum<AttentionVariant>(row.variant),
                            [&](const KernelConfig& config) { return list.add(config); });
    const std::string what = row.arch + " " + row.variant + " receipt " + std::to_string(row.receipt) + " " + row.mode;
    EXPECT_EQ(list.count(), row.names) << what;
    // Upstream's text in upstream's order has upstream's names. Sorting tells a wrong order from wrong names, and takes
    // most of the time.
    const bool same = list.ordered_digest() == row.ordered;
    EXPECT_TRUE(same) << what;
    if (same && !testing::thorough()) continue;
    EXPECT_EQ(list.sorted().digest, row.sorted) << what;
    EXPECT_TRUE(list.sorted().unique) << what;
  }
}

}  // namespace
}  // namespace tilesmith
