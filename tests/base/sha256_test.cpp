#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <unordered_set>

namespace tilesmith {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, NulBytesCount) {
  EXPECT_NE(sha256(std::string_view("a\0b", 3)), sha256(std::string_view("a\0c", 3)));
}

TEST(Key128, IsTheFrontOfTheDigest) {
  const Key128 key = key128("abc");
  EXPECT_EQ(key.hi, 0xba7816bf8f01cfeaull);
  EXPECT_EQ(key.lo, 0x414140de5dae2223ull);
  EXPECT_EQ(key.hex(), "ba7816bf8f01cfea414140de5dae2223");
}

TEST(Key128, HexAndBackForRandomAndEdgeKeys) {
  std::mt19937_64 random(7);
  std::vector<Key128> keys = {{0, 0}, {0, 1}, {1, 0}, {~0ull, ~0ull}, {1ull << 63, 15}};
  for (int i = 0; i < 2000; ++i) keys.push_back({random() >> (random() % 64), random() >> (random() % 64)});
  for (const Key128& key : keys) {
    ASSERT_EQ(key.hex().size(), 32u);
    const auto back = Key128::parse(key.hex());
    ASSERT_TRUE(back.has_value()) << key.hex();
    EXPECT_EQ(*back, key);
  }
}

TEST(Key128, OrderOfKeysIsTheOrderOfTheirText) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 2000; ++i) {
    const Key128 a{random() % 3, random()}, b{random() % 3, random()};
    EXPECT_EQ(a < b, a.hex() < b.hex());
  }
}

TEST(Key128, ParseTakesEitherCaseAndNothingElse) {
  EXPECT_EQ(Key128::parse("ABCDEFabcdef00000000000000000001")->hi, 0xabcdefabcdef0000ull);
  for (const char* bad :
       {"", "0", "0000000000000000000000000000000", "000000000000000000000000000000000",
        "0x000000000000000000000000000000", "0000000000000000000000000000000g", "-0000000000000000000000000000001",
        "0000000000000000+000000000000001", " 0000000000000000000000000000001"}) {
    const auto key = Key128::parse(bad);
    ASSERT_FALSE(key.has_value()) << bad;
    EXPECT_EQ(key.error().code, ErrorCode::parse);
    EXPECT_NE(key.error().message.find(bad), std::string::npos);
  }
}

TEST(Key128, WorksInHashTables) {
  std::unordered_set<Key128> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(key128(std::to_string(i)));
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_TRUE(keys.contains(key128("999")));
}

}  // namespace
}  // namespace tilesmith
