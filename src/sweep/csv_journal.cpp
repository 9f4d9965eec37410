#include "sweep/csv_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace tilesmith {

namespace {

/// Whether a killed bench left no more than a part of what stands before the rows.
bool is_torn_head(std::string_view text, std::string_view columns) {
  while (text.starts_with('#')) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
  return text.size() <= columns.size() && columns.starts_with(text);
}

}  // namespace

Result<CsvJournal> CsvJournal::open(const std::string& path, std::string_view operation, bool resume,
                                    const std::string& about) {
  CsvJournal journal;
  journal.path_ = path;
  journal.file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!journal.file_) return std::unexpected(system_error("cannot open", path, errno));
  const int fd = journal.file_.get();
  // A lock of the process: the workers it forks do not hold it, so it ends with the bench even when a worker lingers.
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  if (::fcntl(fd, F_SETLK, &whole_file) != 0 && (errno == EACCES || errno == EAGAIN))
    return fail(ErrorCode::busy, fmt::format("another bench writes to {}", path), "another file, or wait for its end");

  TS_ASSIGN(const std::string text, read_descriptor(fd, path));
  const std::string header = csv_header(operation);
  const auto cut_at = [&](std::size_t bytes) -> Status {
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0 || ::lseek(fd, static_cast<off_t>(bytes), SEEK_SET) < 0)
      return std::unexpected(system_error("cannot cut the torn last line of", path, errno));
    return {};
  };
  if (text.empty() || (resume && is_torn_head(text, header))) {
    if (!text.empty()) TS_TRY(cut_at(0));
    TS_TRY(write_descriptor(fd, path, about + header + "\n"));
    return journal;
  }
  if (!resume)
    return fail(ErrorCode::invalid_argument, fmt::format("{} holds results already", path),
                "another file, or --resume to add to it");

  constexpr const char* kOtherFile =
      "the file is left as it is; give another one, or repeat the bench with its version";
  std::size_t whole = 0;  // bytes of whole lines
  bool has_columns = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string_view line(text.data() + begin, std::min(end, text.size()) - begin);
    if (line.starts_with('#')) {
      if (end == std::string::npos) break;
      begin = whole = end + 1;
      continue;
    }
    if (has_columns && !kIdentityVersion.starts_with(line.substr(0, kIdentityVersion.size())))
      return fail(ErrorCode::parse,
                  fmt::format("{}: the row at byte {} is not of this version of results (identities start with {}), so "
                              "it is not known which rows are there already",
                              path, begin, kIdentityVersion),
                  kOtherFile);
    if (end == std::string::npos) break;
    if (!has_columns) {
      has_columns = true;
      if (line != header)
        return fail(ErrorCode::parse,
                    fmt::format("{}: its columns are not those of this version's results of {}", path, operation),
                    kOtherFile);
    } else if (const auto cells = parse_csv_line(operation, line)) {
      journal.known_.insert(cells->front());
    } else {
      return fail(ErrorCode::parse, fmt::format("{}: line at byte {} is not a row of results", path, begin),
                  "a file that this version wrote");
    }
    begin = whole = end + 1;
  }
  if (!has_columns)
    return fail(ErrorCode::parse, fmt::format("{} has no line of column names", path),
                "a file that this version wrote");
  TS_TRY(cut_at(whole));
  return journal;
}

Status CsvJournal::append(const BenchRow& row) {
  TS_TRY(write_descriptor(file_.get(), path_, csv_line(row) + "\n"));
  if (::fdatasync(file_.get()) != 0 && errno != EINVAL)
    return std::unexpected(system_error("cannot sync", path_, errno));
  known_.insert(row.identity());
  return {};
}

}  // namespace tilesmith
