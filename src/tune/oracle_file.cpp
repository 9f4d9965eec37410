#include "tune/oracle_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <span>

#include "base/csv.hpp"
#include "tune/interleaving.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <>
struct EnumTable<OracleStatus> {
  static constexpr std::string_view kWhat = "status";
  static constexpr auto kNames = enum_names<OracleStatus>({{OracleStatus::verified, "verified"},
                                                           {OracleStatus::unverified, "unverified"},
                                                           {OracleStatus::behind, "behind"},
                                                           {OracleStatus::failed, "failed"}});
};

namespace {

constexpr std::array<std::string_view, 15> kOracleColumns = {
    "problem", "family", "device_class", "candidates", "recipe",  "name",    "rank", "predicted_s",
    "status",  "look_s", "first_s",      "second_s",   "turns_s", "message", "sets"};

template <class T>
bool read_cell(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::optional<OracleRow> row_of(const std::vector<std::string>& cells) {
  if (cells.size() + 1 < kOracleColumns.size() || cells.size() > kOracleColumns.size()) return std::nullopt;
  OracleRow row{.problem = cells[0],
                .family = cells[1],
                .device_class = cells[2],
                .recipe = {},
                .name = cells[5],
                .turns_s = {},
                .message = cells[13],
                .sets = cells.size() > 14 ? cells[14] : ""};
  const auto recipe = Key128::parse(cells[4]);
  const auto status = parse_enum<OracleStatus>(cells[8]);
  if (!recipe || !status || !read_cell(cells[3], row.candidates) || !read_cell(cells[6], row.rank) ||
      !read_cell(cells[7], row.predicted_s) || !read_cell(cells[9], row.look_s))
    return std::nullopt;
  row.recipe = *recipe;
  row.status = *status;
  for (std::string_view rest = cells[12]; !rest.empty();) {
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    if (!read_cell(rest.substr(0, blank), row.turns_s.emplace_back())) return std::nullopt;
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return row;
}

struct Parsed {
  std::vector<OracleRow> rows;  ///< of whole problems
  std::size_t whole = 0;        ///< bytes up to the end of the last whole problem
  bool has_columns = false;
};

Result<Parsed> parse_rows(std::string_view origin, std::string_view text) {
  Parsed parsed;
  std::size_t of_problem = 0;  // rows at the end whose problem is not whole yet
  std::size_t record = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '#') {
      const std::size_t end = text.find('\n', at);
      if (end == std::string_view::npos) break;
      at = end + 1;
      if (of_problem == 0) parsed.whole = at;
      continue;
    }
    const auto cells = next_csv_record(text, at);
    if (!cells) break;  // the torn end of a killed oracle
    if (!parsed.has_columns) {
      const std::size_t count = std::clamp(cells->size(), kOracleColumns.size() - 1, kOracleColumns.size());
      if (!std::ranges::equal(*cells, std::span(kOracleColumns).first(count)))
        return fail(ErrorCode::parse, fmt::format("{}: its columns are not those of an oracle", origin),
                    "a file that bench --oracle --csv wrote with this version");
      parsed.has_columns = true;
      parsed.whole = at;
      continue;
    }
    ++record;
    auto row = row_of(*cells);
    if (!row) return fail(ErrorCode::parse, fmt::format("{}: row {} is no row of an oracle", origin, record));
    // A problem that was cut short is followed by another run's.
    if (of_problem > 0 && parsed.rows.back().problem != row->problem) {
      parsed.rows.resize(parsed.rows.size() - of_problem);
      of_problem = 0;
    }
    parsed.rows.push_back(std::move(*row));
    if (++of_problem == parsed.rows.back().candidates) {
      of_problem = 0;
      parsed.whole = at;
    }
  }
  parsed.rows.resize(parsed.rows.size() - of_problem);
  return parsed;
}

}  // namespace

std::string oracle_header() {
  std::string line;
  for (const std::string_view column : kOracleColumns) line += (line.empty() ? "" : ",") + std::string(column);
  return line + "\n";
}

std::string oracle_line(const OracleRow& row) {
  const std::array<double, 2> halves = halves_of(row.turns_s);
  std::string turns;
  for (const double seconds : row.turns_s) turns += fmt::format("{}{:.6g}", turns.empty() ? "" : " ", seconds);
  return fmt::format("{},{},{},{},{},{},{},{:.6g},{},{:.6g},{:.6g},{:.6g},{},{},{}\n", csv_cell(row.problem),
                     csv_cell(row.family), csv_cell(row.device_class), row.candidates, row.recipe.hex(),
                     csv_cell(row.name), row.rank, row.predicted_s, name_of(row.status), row.look_s, halves[0],
                     halves[1], turns, csv_cell(row.message), csv_cell(row.sets));
}

Result<std::vector<OracleRow>> parse_oracle(std::string_view origin, std::string_view text) {
  TS_ASSIGN(Parsed parsed, parse_rows(origin, text));
  return std::move(parsed.rows);
}

Result<OracleFile> OracleFile::open(const std::string& path, bool resume, const std::string& about) {
  OracleFile file;
  file.path_ = path;
  file.file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.file_) return std::unexpected(system_error("cannot open", path, errno));
  const int fd = file.file_.get();
  // A lock of the process: workers that it forks do not hold it.
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  if (::fcntl(fd, F_SETLK, &whole_file) != 0 && (errno == EACCES || errno == EAGAIN))
    return fail(ErrorCode::busy, fmt::format("another oracle writes to {}", path), "another file, or wait for its end");
  TS_ASSIGN(const std::string text, read_descriptor(fd, path));
  if (!text.empty() && !resume)
    return fail(ErrorCode::invalid_argument, fmt::format("{} holds results already", path),
                "another file, or --resume to add to it");
  TS_ASSIGN(Parsed parsed, parse_rows(path, text));
  const std::size_t kept = parsed.has_columns ? parsed.whole : 0;
  if (::ftruncate(fd, static_cast<off_t>(kept)) != 0 || ::lseek(fd, static_cast<off_t>(kept), SEEK_SET) < 0)
    return std::unexpected(system_error("cannot cut the torn end of", path, errno));
  if (kept == 0) TS_TRY(write_descriptor(fd, path, about + oracle_header()));
  file.rows_ = std::move(parsed.rows);
  return file;
}

Status OracleFile::append(const std::vector<OracleRow>& rows) {
  std::string text;
  for (const OracleRow& row : rows) text += oracle_line(row);
  TS_TRY(write_descriptor(file_.get(), path_, text));
  if (::fdatasync(file_.get()) != 0 && errno != EINVAL)
    return std::unexpected(system_error("cannot sync", path_, errno));
  return {};
}

}  // namespace tilesmith
