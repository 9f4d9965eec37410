// The documents stay true and readable: every page has fewer than 200 lines, every file and function that it names
// exists, every link leads somewhere, and no page names a path of one person's machine.
//
// Checked are inline code and links. Fenced blocks are examples for the reader's own machine. Pages under docs/log are
// history: they may be long and may name what is gone.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 200;

const fs::path kRoot = TILESMITH_SOURCE_DIR;

struct Document {
  fs::path path;
  std::vector<std::string> lines;
  std::vector<bool> fenced;  ///< by line: whether it stands in a fenced block
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

Document read_document(const fs::path& path) {
  Document document{path, {}, {}};
  std::ifstream in(path);
  bool fenced = false;
  for (std::string line; std::getline(in, line);) {
    const bool fence = line.starts_with("```");
    if (fence) fenced = !fenced;
    document.lines.push_back(line);
    document.fenced.push_back(fenced || fence);
  }
  return document;
}

std::vector<Document> documents_in(const fs::path& folder) {
  std::vector<Document> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".md") out.push_back(read_document(entry.path()));
  return out;
}

std::vector<Document> pages() {
  std::vector<Document> out = documents_in(kRoot / "docs");
  for (const char* name : {"README.md", "CONTRIBUTING.md"}) out.push_back(read_document(kRoot / name));
  return out;
}

/// Every folder and file of the repository's own folders, with "/" before each part: "/src/base/error.hpp".
const std::set<std::string>& files() {
  static const std::set<std::string> all = [] {
    std::set<std::string> out;
    for (const char* top : {"bench", "cmake", "data", "docs", "examples", "include", "kernels", "python", "specs",
                            "src", "tests", "tools"}) {
      if (!fs::exists(kRoot / top)) continue;
      out.insert(std::string("/") + top);
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / top))
        out.insert("/" + fs::relative(entry.path(), kRoot).generic_string());
    }
    return out;
  }();
  return all;
}

/// The files that a page may mean by `name`: its whole path, or the end of it.
std::vector<std::string> files_named(std::string name) {
  while (name.ends_with("/")) name.pop_back();
  std::vector<std::string> out;
  for (const std::string& file : files())
    if (file.ends_with("/" + name)) out.push_back(file);
  return out;
}

/// What stands between backticks, a word at a time.
std::vector<std::string> words_of_code(const std::string& line) {
  static const std::regex code("`([^`]+)`");
  static const std::regex word("[^\\s,;]+");
  std::vector<std::string> out;
  for (std::sregex_iterator i(line.begin(), line.end(), code), end; i != end; ++i) {
    const std::string inside = (*i)[1];
    for (std::sregex_iterator j(inside.begin(), inside.end(), word); j != end; ++j) out.push_back(j->str());
  }
  return out;
}

/// The anchor that a heading gets: lower case, spaces as hyphens, no other punctuation.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      out += '-';
  }
  return out;
}

std::set<std::string> anchors_of(const Document& document) {
  std::set<std::string> out;
  for (std::size_t i = 0; i < document.lines.size(); ++i) {
    const std::string& line = document.lines[i];
    if (document.fenced[i] || !line.starts_with("#")) continue;
    out.insert(anchor_of(line.substr(line.find_first_not_of("# "))));
  }
  return out;
}

std::string place(const Document& document, std::size_t line) {
  return fs::relative(document.path, kRoot).generic_string() + ":" + std::to_string(line + 1);
}

TEST(Documents, PagesHaveFewerThan200Lines) {
  for (const Document& document : pages())
    EXPECT_LT(document.lines.size(), kMostLines)
        << document.path.filename()
        << " is too long to read at once: history belongs to docs/log, figures to bench/results";
}

TEST(Documents, FilesThatPagesNameExist) {
  // A path from a folder of the repository, or a file's name with an ending of source code.
  const std::regex path(
      "(bench|cmake|data|docs|include|kernels|python|specs|src|tests|tools)/[A-Za-z0-9_./-]*[A-Za-z0-9_/]");
  const std::regex source("[A-Za-z0-9_][A-Za-z0-9_./-]*\\.(hpp|h|cpp|cuh|py|sh)");
  const std::regex function("([A-Za-z0-9_][A-Za-z0-9_./-]*\\.(?:hpp|h|cpp|cuh|py)):([A-Za-z_][A-Za-z0-9_:]*)");
  int checked = 0;
  for (const Document& document : pages())
    for (std::size_t i = 0; i < document.lines.size(); ++i) {
      if (document.fenced[i]) continue;
      for (const std::string& word : words_of_code(document.lines[i])) {
        std::smatch match;
        if (std::regex_match(word, match, function)) {
          const std::string name = match[2].str().substr(match[2].str().rfind(':') + 1);
          bool found = false;
          for (const std::string& file : files_named(match[1]))
            found = found || std::regex_search(text_of(kRoot / file.substr(1)), std::regex("\\b" + name + "\\b"));
          EXPECT_TRUE(found) << place(document, i) << ": no file " << match[1] << " with " << name;
          ++checked;
        } else if (std::regex_match(word, path) || std::regex_match(word, source)) {
          EXPECT_FALSE(files_named(word).empty()) << place(document, i) << ": there is no file or folder " << word;
          ++checked;
        }
      }
    }
  EXPECT_GT(checked, 100) << "the check saw almost no files";
}

TEST(Documents, LinksLeadSomewhere) {
  const std::regex link("\\]\\(([^)#\\s]*)(?:#([^)\\s]*))?\\)");
  std::vector<Document> all = pages();
  if (fs::exists(kRoot / "docs" / "log"))
    for (Document& document : documents_in(kRoot / "docs" / "log")) all.push_back(std::move(document));
  for (const Document& document : all)
    for (std::size_t i = 0; i < document.lines.size(); ++i) {
      if (document.fenced[i]) continue;
      const std::string& line = document.lines[i];
      for (std::sregex_iterator m(line.begin(), line.end(), link), end; m != end; ++m) {
        const std::string target = (*m)[1], anchor = (*m)[2];
        if (target.find("://") != std::string::npos) continue;
        const fs::path to = target.empty() ? document.path : document.path.parent_path() / target;
        EXPECT_TRUE(fs::exists(to)) << place(document, i) << ": " << target << " does not exist";
        if (anchor.empty() || !fs::exists(to) || to.extension() != ".md") continue;
        EXPECT_TRUE(anchors_of(read_document(to)).contains(anchor))
            << place(document, i) << ": " << to.filename() << " has no heading #" << anchor;
      }
    }
}

TEST(Documents, NoPageNamesAPathOfOneMachine) {
  const std::regex own("(^|[^A-Za-z0-9_.])/(home|root|Users|work|workspace|mnt|scratch|data|tmp)/[A-Za-z0-9_.]");
  std::vector<Document> all = pages();
  if (fs::exists(kRoot / "docs" / "log"))
    for (Document& document : documents_in(kRoot / "docs" / "log")) all.push_back(std::move(document));
  for (const Document& document : all)
    for (std::size_t i = 0; i < document.lines.size(); ++i)
      EXPECT_FALSE(std::regex_search(document.lines[i], own)) << place(document, i) << ": " << document.lines[i];
}

}  // namespace
