#include "jit/store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "base/file.hpp"
#include "base/log.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using testing::binary_of;
using testing::make_source;
using testing::ScopedVariable;

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open() const {
    auto store = Store::open(directory_.path() / "store");
    EXPECT_TRUE(store.has_value()) << store.error().text();
    return std::move(*store);
  }
  static EntryKey key_of(const Source& source) { return entry_key(source, "t").value(); }
  static Binary add(Store& store, const Source& source) {
    const std::string bytes = binary_of(source);
    auto binary = store.publish(key_of(source), source, {bytes, "log"});
    EXPECT_TRUE(binary.has_value()) << binary.error().text();
    return *binary;
  }
  fs::path entry(const Source& source) const { return directory_.path() / "store/v1/entries" / key_of(source).digest; }

  TemporaryDirectory directory_ = testing::fast_directory();
};

TEST_F(StoreTest, WhatIsPublishedIsFoundByTheNextProcess) {
  const Source source = make_source("a");
  EXPECT_FALSE(open()->find(key_of(source)).value().has_value());
  const Binary published = add(*open(), source);
  EXPECT_FALSE(published.from_store);
  const auto found = open()->find(key_of(source)).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->from_store);
  EXPECT_EQ(found->path, published.path);
  EXPECT_EQ(found->read(), binary_of(source));
}

TEST_F(StoreTest, RoundTripsRandomBinaries) {
  const auto store = open();
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    const Source source = make_source("r" + std::to_string(i));
    std::string bytes(random() % 3 == 0 ? random() % 4 : random() % 50'000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    ASSERT_TRUE(store->publish(key_of(source), source, {bytes, ""}).has_value());
    ASSERT_EQ(store->find(key_of(source)).value()->read(), bytes);
  }
  EXPECT_EQ(store->stats()->entries, 40u);
  EXPECT_TRUE(store->verify()->corrupt.empty());
}

TEST_F(StoreTest, TheSecondOfTwoPublishersTakesTheFirstOnesBinary) {
  const auto store = open();
  const Source source = make_source("a");
  add(*store, source);
  const auto second = store->publish(key_of(source), source, {"other bytes", ""});
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->from_store);
  EXPECT_EQ(second->read(), binary_of(source));
  EXPECT_EQ(store->stats()->in_progress, 0u);
}

TEST_F(StoreTest, AFailureIsRememberedUntilItIsOldOrASuccessComes) {
  const auto store = open();
  const Source source = make_source("a");
  const EntryKey key = key_of(source);
  store->publish_failure(key, source, {ErrorCode::compile_failed, "line 3: no", "try again"});
  const auto failed = store->find(key);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "line 3: no");
  EXPECT_EQ(store->stats()->failures, 1u);

  // Two hours old, or from a clock that was ahead: forgotten.
  const fs::path manifest = entry(source) / "manifest.json";
  const std::string text = read_file(manifest).value();
  const std::size_t at = text.find("\"failed_at\": ") + 13;
  const std::int64_t time = std::stoll(text.substr(at));
  for (const std::int64_t other : {time - 7200, time + 100'000, std::int64_t{0}}) {
    std::string changed = text;
    changed.replace(at, text.find_first_not_of("0123456789", at) - at, std::to_string(other));
    ASSERT_TRUE(write_file_atomic(manifest, changed).has_value());
    const auto found = store->find(key);
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->has_value());
  }
  add(*store, source);
  EXPECT_EQ(store->find(key).value()->read(), binary_of(source));
  EXPECT_EQ(store->stats()->failures, 0u);
  store->publish_failure(key, source, {ErrorCode::compile_failed, "no", ""});
  EXPECT_TRUE(store->find(key).value().has_value()) << "a failure does not replace a binary";
}

TEST_F(StoreTest, IsPrivate) {
  add(*open(), make_source("a"));
  struct stat status {};
  for (const fs::path& part : {fs::path("."), fs::path("v1"), fs::path("v1/entries"), fs::path("v1/building")}) {
    ASSERT_EQ(::stat((directory_.path() / "store" / part).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u) << part;
  }
}

TEST_F(StoreTest, APermissiveUmaskMakesNoDifference) {
  const mode_t old = ::umask(0);
  const auto store = open();
  add(*store, make_source("a"));
  ::umask(old);
  EXPECT_TRUE(store->find(key_of(make_source("a"))).value().has_value());
  EXPECT_EQ(store->corrupt_count(), 0u);
}

TEST_F(StoreTest, RefusesADirectoryThatOthersCanWriteTo) {
  fs::create_directory(directory_.path() / "store");
  fs::permissions(directory_.path() / "store", fs::perms(0777));
  const auto refused = Store::open(directory_.path() / "store");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().hint.find("chmod go-w"), std::string::npos);

  ScopedVariable variable("TILESMITH_CACHE_DIR", (directory_.path() / "store").c_str());
  const auto chosen = Store::open();
  ASSERT_FALSE(chosen.has_value());
  EXPECT_NE(chosen.error().text().find("TILESMITH_CACHE_DIR"), std::string::npos);
  EXPECT_NE(chosen.error().text().find("chmod go-w"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(directory_.path() / "store")) << "nothing was written there";
}

TEST_F(StoreTest, PruneRemovesWhatWasUsedLeastRecently) {
  const auto store = open();
  std::vector<Source> sources;
  for (int i = 0; i < 6; ++i) {
    sources.push_back(make_source("p" + std::to_string(i)));
    add(*store, sources.back());
    const timespec times[2] = {{1'000'000 + i, 0}, {1'000'000 + i, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, entry(sources.back()).c_str(), times, 0), 0);
  }
  ASSERT_TRUE(store->find(key_of(sources[0])).value().has_value()) << "the oldest is used again";
  const std::uint64_t all = store->stats()->bytes;
  const auto pruned = store->prune(all / 2);
  ASSERT_TRUE(pruned.has_value()) << pruned.error().text();
  EXPECT_EQ(pruned->removed, 3u);
  EXPECT_LE(pruned->left.bytes, all / 2);
  for (const int kept : {0, 4, 5}) EXPECT_TRUE(store->find(key_of(sources[kept])).value().has_value()) << kept;
  for (const int gone : {1, 2, 3}) EXPECT_FALSE(store->find(key_of(sources[gone])).value().has_value()) << gone;
  EXPECT_EQ(store->prune(0)->left.entries, 0u);
  EXPECT_EQ(store->prune(0)->removed, 0u);
}

// An entry that the program wrote when the schema was 1; its source and its log are not needed to recognise it.
TEST_F(StoreTest, EntriesOfAnotherVersionAreLeftAlone) {
  const auto store = open();
  add(*store, make_source("a"));
  const StoreStats before = store->stats().value();
  fs::path old;
  for (const auto& each : fs::directory_iterator(TILESMITH_SOURCE_DIR "/tests/jit/data/entry_v1")) {
    old = store->root() / "v1/entries" / each.path().filename();
    fs::create_directory(old);
    fs::permissions(old, fs::perms(0700));
    fs::copy(each.path() / "manifest.json", old / "manifest.json");
    fs::permissions(old / "manifest.json", fs::perms(0600));
  }
  ASSERT_FALSE(old.empty());
  const std::string manifest = read_file(old / "manifest.json").value();

  const auto reopened = open();
  const StoreStats stats = reopened->stats().value();
  EXPECT_EQ(stats.other_version_entries, 1u);
  EXPECT_EQ(stats.other_version_bytes, manifest.size());
  EXPECT_EQ(stats.entries, before.entries);
  EXPECT_EQ(stats.failures, before.failures);
  EXPECT_EQ(stats.bytes, before.bytes);
  EXPECT_EQ(reopened->entries().size(), 1u) << "what is listed is of this version";
  const StoreVerdict verdict = reopened->verify().value();
  EXPECT_EQ(verdict.checked, 1u);
  EXPECT_EQ(verdict.other_version_entries, 1u);
  EXPECT_TRUE(verdict.corrupt.empty());
  EXPECT_EQ(reopened->stats()->quarantined, 0u);
  const PruneResult pruned = reopened->prune(0).value();
  EXPECT_EQ(pruned.removed, 1u);
  EXPECT_EQ(pruned.left.other_version_entries, 1u);
  EXPECT_EQ(read_file(old / "manifest.json").value(), manifest);

  const PruneResult cleared = reopened->prune(0, OtherVersions::remove).value();
  EXPECT_EQ(cleared.removed, 1u);
  EXPECT_EQ(cleared.left.other_version_entries, 0u);
  EXPECT_FALSE(fs::exists(old));
}

// Only an entry whose manifest says one other version throughout is another version's. Otherwise it is damaged.
TEST_F(StoreTest, ADamagedVersionIsDamage) {
  const auto store = open();
  const Source source = make_source("a");
  add(*store, source);
  std::string manifest = read_file(entry(source) / "manifest.json").value();
  const std::size_t outer = manifest.rfind("\"schema\": 2");
  ASSERT_NE(outer, std::string::npos);
  ASSERT_NE(manifest.find("\"schema\": 2"), outer) << "the key states it as well";
  manifest[outer + 10] = '1';
  ASSERT_TRUE(write_file_atomic(entry(source) / "manifest.json", manifest));
  EXPECT_EQ(store->stats()->other_version_entries, 0u);
  EXPECT_EQ(store->verify()->corrupt.size(), 1u);
}

TEST_F(StoreTest, ASharedBinaryCountsOnce) {
  const auto store = open();
  const std::string bytes(100'000, 'x');
  const auto directory = store->private_directory();
  ASSERT_TRUE(write_new_file(directory->path() / "binary", bytes).has_value());
  for (int i = 0; i < 4; ++i) {
    const Source source = make_source("s" + std::to_string(i));
    ASSERT_TRUE(store->publish(key_of(source), source, {bytes, "", {}, directory->path() / "binary"}).has_value());
  }
  EXPECT_EQ(fs::hard_link_count(entry(make_source("s0")) / "binary"), 5u);
  EXPECT_LT(store->stats()->bytes, 120'000u);
  EXPECT_TRUE(store->verify()->corrupt.empty());
}

TEST_F(StoreTest, PlacesAreTriedInOrder) {
  const std::string base = directory_.path().string();
  ScopedVariable chosen("TILESMITH_CACHE_DIR", (base + "/chosen").c_str());
  ScopedVariable xdg("XDG_CACHE_HOME", (base + "/xdg").c_str());
  ScopedVariable home("HOME", (base + "/home").c_str());
  EXPECT_EQ(Store::open().value()->root(), base + "/chosen");
  chosen.set(nullptr);
  EXPECT_EQ(Store::open().value()->root(), base + "/xdg/tilesmith");
  xdg.set(nullptr);
  EXPECT_EQ(Store::open().value()->root(), base + "/home/.cache/tilesmith");
}

}  // namespace
}  // namespace tilesmith
