#include "tune/sqlite.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/file.hpp"

namespace tilesmith {
namespace {

constexpr int kWaitMilliseconds = 10'000;

std::unexpected<Error> sqlite_error(sqlite3* database, const std::string& path, int code) {
  const char* words = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail(ErrorCode::io,
                  fmt::format("{}: another process has been writing to it for {} s", path, kWaitMilliseconds / 1000),
                  "wait for the other process, or end it");
    case SQLITE_FULL:
      return fail(ErrorCode::io, fmt::format("{}: {}", path, words), "free some disk space; what was there is whole");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return fail(ErrorCode::io, fmt::format("{} is no sound SQLite database: {}", path, words),
                  "another file, or a merge of the parts that can be read");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return fail(ErrorCode::io, fmt::format("{}: {}", path, words), "a folder and a file that this user may write");
    default:
      return fail(ErrorCode::io, fmt::format("{}: {}", path, words));
  }
}

/// What differs when somebody has written to a file meanwhile. Absent: there is no file.
struct FileState {
  ino_t inode;
  off_t bytes;
  std::chrono::nanoseconds changed;
  friend bool operator==(const FileState&, const FileState&) = default;
};

std::optional<FileState> state_of(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileState{found.st_ino, found.st_size,
                   std::chrono::seconds(found.st_mtim.tv_sec) + std::chrono::nanoseconds(found.st_mtim.tv_nsec)};
}

/// Whether a change from now on shows: the clock of files has steps of some milliseconds.
bool is_old(const FileState& state) {
  constexpr auto kSteps = std::chrono::milliseconds(20);
  return std::chrono::abs(std::chrono::system_clock::now().time_since_epoch() - state.changed) > kSteps;
}

/// A database in memory. Errors: of SQLite.
int take_bytes(sqlite3* handle, std::string_view bytes) {
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(std::max<sqlite3_uint64>(bytes.size(), 1)));
  if (copy == nullptr) return SQLITE_NOMEM;
  std::ranges::copy(bytes, copy);
  // Versions of the format for writers and readers: 2 is write-ahead, which memory has not
  // (sqlite.org/fileformat2.html).
  if (size > 19) copy[18] = copy[19] = 1;
  return sqlite3_deserialize(handle, "main", copy, size, size,
                             SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
}

}  // namespace

SqliteStatement& SqliteStatement::bind(std::int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_.get(), ++bound_, value); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::bind(double value) {
  if (const int code = sqlite3_bind_double(statement_.get(), ++bound_, value); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::bind(std::string_view value) {
  const char* bytes = value.data() == nullptr ? "" : value.data();  // null would be no text but NULL
  const int code = sqlite3_bind_text64(statement_.get(), ++bound_, bytes, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Result<bool> SqliteStatement::step() {
  if (bind_error_ != SQLITE_OK) return sqlite_error(database_, *path_, bind_error_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    auto error = sqlite_error(database_, *path_, code);
    sqlite3_reset(statement_.get());
    return error;
  }
  sqlite3_reset(statement_.get());
  bound_ = 0;
  return false;
}

Status SqliteStatement::run() {
  TS_ASSIGN([[maybe_unused]] const bool row, step());
  return {};
}

std::string SqliteStatement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes == nullptr
             ? std::string()
             : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

Result<SqliteDatabase> SqliteDatabase::connect(const std::filesystem::path& path, int flags) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  SqliteDatabase database(handle, path.string());
  if (code != SQLITE_OK) return sqlite_error(handle, path.string(), code);
  sqlite3_busy_timeout(handle, kWaitMilliseconds);
  return database;
}

Result<SqliteDatabase> SqliteDatabase::open(const std::filesystem::path& path, Mode mode) {
  std::error_code ignored;
  if (mode != Mode::write && !std::filesystem::exists(path, ignored))
    return fail(ErrorCode::not_found, fmt::format("there is no {}", path.string()), "tilesmith tune --db writes one");
  if (std::filesystem::is_directory(path, ignored))
    return fail(ErrorCode::io, fmt::format("{} is a folder", path.string()), "a file in it");
  if (mode == Mode::write) return connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (mode == Mode::change) return connect(path, SQLITE_OPEN_READWRITE);
  return open_for_reading(path);
}

Result<SqliteDatabase> SqliteDatabase::open_for_reading(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
  const std::filesystem::path log = real.string() + "-wal";
  const bool may_write = ::access(real.c_str(), W_OK) == 0 && ::access(real.parent_path().c_str(), W_OK) == 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMilliseconds);
  for (;;) {
    // Reading a database in WAL mode takes files beside it, which the last connection removes if it may write.
    if (may_write || std::filesystem::exists(log, ignored)) {
      TS_ASSIGN(SqliteDatabase database, connect(path, may_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY));
      const int code = sqlite3_exec(database.handle_.get(), "PRAGMA query_only=1; PRAGMA schema_version", nullptr,
                                    nullptr, nullptr) &
                       0xff;
      // A full disk and another's folder refuse those files.
      const bool refused = code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_IOERR;
      const auto size = std::filesystem::file_size(log, ignored);
      if (!refused || (size != 0 && size != static_cast<std::uintmax_t>(-1))) return database;
    }
    // Without them it cannot be locked, and a writer may come and go: taken whole, again where one did.
    const auto before = state_of(real);
    const bool is_quiet = before && is_old(*before) && state_of(log).value_or(FileState{}).bytes == 0;
    if (is_quiet) {
      TS_ASSIGN(const std::string bytes, read_regular_file(real));
      if (state_of(real) == before) return in_memory(path, bytes);
    }
    if (std::chrono::steady_clock::now() > until) return sqlite_error(nullptr, path.string(), SQLITE_BUSY);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<SqliteDatabase> SqliteDatabase::in_memory(const std::filesystem::path& path, std::string_view bytes) {
  sqlite3* handle = nullptr;
  int code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, nullptr);
  SqliteDatabase database(handle, path.string());
  if (code == SQLITE_OK) code = take_bytes(handle, bytes);
  if (code != SQLITE_OK) return sqlite_error(handle, path.string(), code);
  return database;
}

Status SqliteDatabase::write_ahead() {
  // Of two that change the mode of a new file at once each would wait for the other, so SQLite refuses one without
  // waiting. Soon after, the file is in this mode, and there is nothing to change.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMilliseconds);
  for (;;) {
    const int code = sqlite3_exec(handle_.get(), "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    if ((code & 0xff) != SQLITE_BUSY || std::chrono::steady_clock::now() > until)
      return sqlite_error(handle_.get(), *path_, code);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Status SqliteDatabase::execute(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_error(handle_.get(), *path_, code);
  return {};
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return sqlite_error(handle_.get(), *path_, code);
  return SqliteStatement(handle_.get(), statement, path_.get());
}

Result<SqliteTransaction> SqliteTransaction::begin(SqliteDatabase& database) {
  TS_TRY(database.execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

SqliteTransaction::~SqliteTransaction() {
  if (database_ != nullptr) [[maybe_unused]]
    const Status rolled_back = database_->execute("ROLLBACK");
}

Status SqliteTransaction::commit() {
  TS_TRY(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace tilesmith
