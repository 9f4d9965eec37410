// The part of the database that other programs' rows lie in. Its tables came later than the others: a file has them
// from the first such row on, and one without them has no such rows.
#include "tune/database.hpp"

namespace tilesmith {
namespace {

constexpr const char* kForeignTables = R"(
CREATE TABLE IF NOT EXISTS foreign_source(id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, format TEXT NOT NULL, origin TEXT NOT NULL,
                 device TEXT NOT NULL, header TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS foreign_sample(source INTEGER NOT NULL REFERENCES foreign_source, number INTEGER NOT NULL, problem TEXT NOT NULL,
                 line TEXT NOT NULL, kernel TEXT NOT NULL, seconds REAL NOT NULL, failure TEXT NOT NULL, original TEXT NOT NULL,
                 PRIMARY KEY(source, number)) STRICT, WITHOUT ROWID;
)";

}  // namespace

Result<std::int64_t> Database::add_foreign_in_transaction(const ForeignSource& source) {
  TS_TRY(database_.execute(kForeignTables));
  std::int64_t row = 0;
  {
    TS_ASSIGN(SqliteStatement find, database_.prepare("SELECT id FROM foreign_source WHERE digest = ?"));
    TS_ASSIGN(const bool known, find.bind(source.digest).step());
    if (known) return 0;
  }
  {
    TS_ASSIGN(SqliteStatement add,
              database_.prepare("INSERT INTO foreign_source(digest, format, origin, device, header) "
                                "VALUES(?, ?, ?, ?, ?) RETURNING id"));
    TS_ASSIGN(
        const bool added,
        add.bind(source.digest).bind(source.format).bind(source.origin).bind(source.device).bind(source.header).step());
    if (!added) return fail(ErrorCode::internal, "SQLite gave no id for a new row");
    row = add.integer(0);
  }
  TS_ASSIGN(SqliteStatement add, database_.prepare("INSERT INTO foreign_sample VALUES(?, ?, ?, ?, ?, ?, ?, ?)"));
  for (std::size_t i = 0; i < source.samples.size(); ++i) {
    const ForeignSample& sample = source.samples[i];
    TS_TRY(add.bind(row)
               .bind(static_cast<std::int64_t>(i))
               .bind(sample.problem)
               .bind(sample.line)
               .bind(sample.kernel)
               .bind(sample.seconds)
               .bind(sample.failure)
               .bind(sample.original)
               .run());
  }
  return static_cast<std::int64_t>(source.samples.size());
}

Result<std::vector<ForeignSource>> Database::foreign() const {
  {
    TS_ASSIGN(SqliteStatement find, database_.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'foreign_sample'"));
    TS_ASSIGN(const bool has, find.step());
    if (!has) return std::vector<ForeignSource>();
  }
  TS_ASSIGN(SqliteStatement read_source,
            database_.prepare("SELECT id, digest, format, origin, device, header FROM foreign_source "
                              "ORDER BY format, origin, digest"));
  TS_ASSIGN(SqliteStatement read_sample,
            database_.prepare("SELECT problem, line, kernel, seconds, failure, original FROM foreign_sample "
                              "WHERE source = ? ORDER BY number"));
  std::vector<ForeignSource> out;
  while (true) {
    TS_ASSIGN(const bool row, read_source.step());
    if (!row) return out;
    ForeignSource source{.digest = read_source.text(1),
                         .format = read_source.text(2),
                         .origin = read_source.text(3),
                         .device = read_source.text(4),
                         .header = read_source.text(5),
                         .samples = {}};
    read_sample.bind(read_source.integer(0));
    while (true) {
      TS_ASSIGN(const bool more, read_sample.step());
      if (!more) break;
      source.samples.push_back({.problem = read_sample.text(0),
                                .line = read_sample.text(1),
                                .kernel = read_sample.text(2),
                                .seconds = read_sample.real(3),
                                .failure = read_sample.text(4),
                                .original = read_sample.text(5)});
    }
    out.push_back(std::move(source));
  }
}

}  // namespace tilesmith
