// SQLite with the project's errors: a connection and its statements. Every error names the file and SQLite's own words.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

class SqliteStatement {
 public:
  SqliteStatement& bind(std::int64_t value);
  SqliteStatement& bind(double value);
  SqliteStatement& bind(std::string_view value);
  /// Runs to the next row: whether there is one. After the last row the statement may be bound and run anew. Errors:
  /// io, which also stand for a value that could not be bound.
  [[nodiscard]] Result<bool> step();
  /// Of a statement without rows.
  [[nodiscard]] Status run();
  [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_.get(), column); }
  [[nodiscard]] std::string text(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteStatement(sqlite3* database, sqlite3_stmt* statement, const std::string* path)
      : database_(database), statement_(statement, &sqlite3_finalize), path_(path) {}

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
  const std::string* path_;
  int bound_ = 0;
  int bind_error_ = SQLITE_OK;
};

class SqliteDatabase {
 public:
  enum class Mode : std::uint8_t { read, change, write };

  /// In mode write a file that does not exist is created. Waits up to ten seconds for other processes. A reader needs
  /// no right to write and leaves no file behind; without that right it waits until nobody writes. Errors: io,
  /// not_found.
  [[nodiscard]] static Result<SqliteDatabase> open(const std::filesystem::path& path, Mode mode);

  /// Keeps the file in WAL mode from here on. Waits as open() does. Errors: io.
  [[nodiscard]] Status write_ahead();
  /// Any number of statements, without values.
  [[nodiscard]] Status execute(const char* sql);
  [[nodiscard]] Result<SqliteStatement> prepare(std::string_view sql);
  [[nodiscard]] const std::string& path() const { return *path_; }

 private:
  [[nodiscard]] static Result<SqliteDatabase> open_for_reading(const std::filesystem::path& path);
  [[nodiscard]] static Result<SqliteDatabase> in_memory(const std::filesystem::path& path, std::string_view bytes);
  [[nodiscard]] static Result<SqliteDatabase> connect(const std::filesystem::path& path, int flags);
  SqliteDatabase(sqlite3* handle, std::string path)
      : handle_(handle, &sqlite3_close_v2), path_(std::make_unique<std::string>(std::move(path))) {}

  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
  std::unique_ptr<std::string> path_;
};

/// Rolls back at its end unless commit() succeeded.
class SqliteTransaction {
 public:
  /// Takes the right to write at once, so that two writers wait for each other instead of failing at the end.
  [[nodiscard]] static Result<SqliteTransaction> begin(SqliteDatabase& database);
  SqliteTransaction(SqliteTransaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();
  [[nodiscard]] Status commit();

 private:
  explicit SqliteTransaction(SqliteDatabase& database) : database_(&database) {}
  SqliteDatabase* database_;
};

}  // namespace tilesmith
