#include "jit/entry.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/file.hpp"
#include "jit/fake_toolchain.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using testing::make_source;

TEST(EntryKey, DependsOnEveryFieldButTheName) {
  const std::vector<std::function<void(Source&)>> changes = {[](Source& s) { s.text += " "; },
                                                             [](Source& s) { s.entry_symbol += "_"; },
                                                             [](Source& s) { s.options.push_back(""); },
                                                             [](Source& s) { s.options[0] = "-O3"; },
                                                             [](Source& s) {
                                                               s.options = {"-O", "2"};
                                                             },
                                                             [](Source& s) { s.options = {}; },
                                                             [](Source& s) { s.arch = "x86_64_v4"; },
                                                             [](Source& s) { s.language = Language::cuda; },
                                                             [](Source& s) { s.language = Language::cpp; },
                                                             [](Source& s) { s.spill_limit_bytes = 64; }};
  const Source source = make_source("a");
  std::set<std::string> digests = {entry_key(source, "gcc 12")->digest, entry_key(source, "gcc 13")->digest};
  for (const auto& change : changes) {
    Source changed = source;
    change(changed);
    digests.insert(entry_key(changed, "gcc 12")->digest);
  }
  EXPECT_EQ(digests.size(), changes.size() + 2);
  Source renamed = source;
  renamed.name = "b";
  EXPECT_EQ(entry_key(renamed, "gcc 12")->digest, entry_key(source, "gcc 12")->digest);
}

TEST(EntryKey, OptionsKeepTheirBoundariesAndOrder) {
  Source a = make_source("a"), b = a;
  a.options = {"-Dx", "-Dy"};
  b.options = {"-Dy", "-Dx"};
  EXPECT_NE(entry_key(a, "t")->digest, entry_key(b, "t")->digest);
  b.options = {"-Dx\",\"-Dy"};
  EXPECT_NE(entry_key(a, "t")->digest, entry_key(b, "t")->digest);
}

TEST(EntryKey, RefusesSymbolsThatAreNoIdentifiers) {
  for (const char* bad : {"", "1a", "a-b", "../a", "a b", "a;b", "\xc3\xa9"}) {
    Source source = make_source("a");
    source.entry_symbol = bad;
    const auto key = entry_key(source, "t");
    ASSERT_FALSE(key.has_value()) << bad;
    EXPECT_EQ(key.error().code, ErrorCode::invalid_argument);
  }
  Source source = make_source("a");
  source.entry_symbol = std::string(1001, 'a');
  EXPECT_FALSE(entry_key(source, "t").has_value());
  source.entry_symbol = std::string(300, 'a');  // kernels are called by their native names
  EXPECT_TRUE(entry_key(source, "t").has_value());
  source = make_source("a");
  source.options = {"-I\xff"};
  EXPECT_FALSE(entry_key(source, "t").has_value());
}

class Entry : public ::testing::Test {
 protected:
  fs::path make(const std::string& name, const Source& source, const EntryContent& content) const {
    const fs::path path = directory_.path() / name;
    EXPECT_TRUE(make_private_directories(path).has_value());
    const Status written = write_entry(path, entry_key(source, "t").value(), source, content);
    EXPECT_TRUE(written.has_value()) << written.error().text();
    return path;
  }
  TemporaryDirectory directory_ = testing::fast_directory();
};

TEST_F(Entry, ReadsBackWhatWasWritten) {
  const Source source = make_source("a", std::string("text with \0 and \xff", 17));
  const EntryKey key = entry_key(source, "t").value();
  const std::string binary(
      "\x7f"
      "ELF\0\1",
      6);
  const fs::path path = make("one", source, {binary, "\xff\xfe log"});
  const auto entry = read_entry(path, &key);
  ASSERT_TRUE(entry.has_value()) << entry.error().text();
  EXPECT_FALSE(entry->failure.has_value());
  EXPECT_EQ(entry->binary.read(), binary);
  EXPECT_EQ(entry->binary.bytes, 6u);
  EXPECT_EQ(entry->binary.entry_symbol, "entry_a");
  EXPECT_EQ(read_file(path / "source"), source.text);
}

TEST_F(Entry, KeepsAFailureWithItsReason) {
  const Source source = make_source("a");
  const EntryKey key = entry_key(source, "t").value();
  const fs::path path = make("one", source, {{}, "log", Error{ErrorCode::compile_failed, "bad \xff byte", "fix it"}});
  const auto entry = read_entry(path, &key);
  ASSERT_TRUE(entry.has_value()) << entry.error().text();
  EXPECT_EQ(entry->failure->code, ErrorCode::compile_failed);
  EXPECT_TRUE(entry->failure->message.starts_with("bad "));
  EXPECT_EQ(entry->failure->hint, "fix it");
}

TEST_F(Entry, AnotherKeysEntryIsCorrupt) {
  const Source a = make_source("a"), b = make_source("b");
  const EntryKey key_b = entry_key(b, "t").value();
  const fs::path path = make("one", a, {"binary", ""});
  EXPECT_EQ(read_entry(path, &key_b).error().code, ErrorCode::corrupt);
  EXPECT_EQ(read_entry(path, nullptr).error().code, ErrorCode::corrupt)
      << "the directory's name is no digest of its key";
  EXPECT_EQ(read_entry(directory_.path() / "absent", &key_b).error().code, ErrorCode::not_found);
}

TEST_F(Entry, ABinaryThatChangedAfterwardsIsNotedOnReading) {
  const Source source = make_source("a");
  const EntryKey key = entry_key(source, "t").value();
  const fs::path path = make("one", source, {"binary", ""});
  const auto entry = read_entry(path, &key);
  ASSERT_TRUE(write_file_atomic(path / "binary", "Binary").has_value());
  EXPECT_EQ(entry->binary.read().error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace tilesmith
