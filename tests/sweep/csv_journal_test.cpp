#include "sweep/csv_journal.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep/sample_row.hpp"

namespace tilesmith {
namespace {

class Journal : public ::testing::Test {
 protected:
  [[nodiscard]] std::string text() const { return read_file(path_).value(); }
  void write(const std::string& content) const { ASSERT_TRUE(write_file_atomic(path_, content)); }
  [[nodiscard]] Error refusal(bool resume) const {
    const auto journal = CsvJournal::open(path_, "attention_fwd", resume);
    EXPECT_FALSE(journal);
    return journal ? Error{} : journal.error();
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-journal-").value();
  std::string path_ = (directory_.path() / "rows.csv").string();
  std::string header_ = csv_header("attention_fwd") + "\n";
  std::string first_ = csv_line(testing::sample_row(1)) + "\n", second_ = csv_line(testing::sample_row(2)) + "\n";
};

TEST_F(Journal, RowsAreInTheFileAsTheyCome) {
  auto journal = CsvJournal::open(path_, "attention_fwd", false);
  ASSERT_TRUE(journal) << journal.error().text();
  EXPECT_EQ(text(), header_);
  ASSERT_TRUE(journal->append(testing::sample_row(1)));
  EXPECT_EQ(text(), header_ + first_);
  EXPECT_TRUE(journal->holds(testing::sample_row(1).identity()));
  EXPECT_FALSE(journal->holds(testing::sample_row(2).identity()));
}

TEST_F(Journal, ResumingKeepsWholeRowsAndCutsATornOne) {
  for (std::size_t torn = 0; torn < second_.size(); torn += 7) {
    write(header_ + first_ + second_.substr(0, torn));
    auto journal = CsvJournal::open(path_, "attention_fwd", true);
    ASSERT_TRUE(journal) << journal.error().text();
    EXPECT_EQ(journal->size(), 1u);
    EXPECT_TRUE(journal->holds(testing::sample_row(1).identity()));
    ASSERT_TRUE(journal->append(testing::sample_row(2)));
    EXPECT_EQ(text(), header_ + first_ + second_);
  }
}

TEST_F(Journal, ResumingFromATornHeaderStartsAnew) {
  for (const std::size_t torn : {std::size_t{0}, std::size_t{1}, header_.size() / 2, header_.size() - 1}) {
    write(header_.substr(0, torn));
    const auto journal = CsvJournal::open(path_, "attention_fwd", true);
    ASSERT_TRUE(journal) << journal.error().text();
    EXPECT_EQ(text(), header_);
  }
}

TEST_F(Journal, ResultsAreNotOverwritten) {
  write(header_ + first_);
  const Error error = refusal(false);
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_NE(error.hint.find("--resume"), std::string::npos);
  EXPECT_EQ(text(), header_ + first_);
}

TEST_F(Journal, OtherFilesAreLeftAlone) {
  for (const std::string& content :
       {std::string("a,b,c\n1,2,3\n"), csv_header("gemm") + "\n", std::string("no line"), "x" + header_,
        header_ + "1,2,3\n" + first_, header_ + first_ + "\"torn\n" + second_}) {
    write(content);
    EXPECT_EQ(refusal(true).code, ErrorCode::parse) << content.substr(0, 40);
    EXPECT_EQ(text(), content);
  }
}

// Files that the program wrote when identities had no version: resuming would measure everything again, for no row's
// identity is found, and leave a file of two formats.
TEST_F(Journal, FilesOfEarlierVersionsAreRefusedAndLeftAlone) {
  const std::string attention = read_file(TILESMITH_SOURCE_DIR "/tests/sweep/data/attention_v1.csv").value();
  const std::string gemm = read_file(TILESMITH_SOURCE_DIR "/tests/sweep/data/gemm_v1.csv").value();
  // Also under today's columns, whole and torn: the first version's columns may be today's again.
  const std::string row = attention.substr(attention.find('\n') + 1);
  for (const std::string& content : {attention, gemm, header_ + row, header_ + row.substr(0, 100), header_ + "0ce"}) {
    write(content);
    const Error error = refusal(true);
    EXPECT_EQ(error.code, ErrorCode::parse);
    EXPECT_NE(error.message.find("this version"), std::string::npos) << error.text();
    EXPECT_NE(error.hint.find("the file is left as it is"), std::string::npos) << error.text();
    EXPECT_EQ(text(), content);
  }
}

TEST_F(Journal, TwoBenchesDoNotShareAFile) {
  const auto first = CsvJournal::open(path_, "attention_fwd", false);
  ASSERT_TRUE(first);
  const pid_t other = ::fork();
  if (other == 0) {
    const auto second = CsvJournal::open(path_, "attention_fwd", true);
    ::_exit(!second && second.error().code == ErrorCode::busy ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << "another process got the file";
}

TEST_F(Journal, AnUnwritablePlaceIsAnError) {
  path_ = (directory_.path() / "missing" / "rows.csv").string();
  EXPECT_EQ(refusal(false).code, ErrorCode::not_found);
  path_ = directory_.path().string();
  EXPECT_FALSE(CsvJournal::open(path_, "attention_fwd", false));
}

}  // namespace
}  // namespace tilesmith
