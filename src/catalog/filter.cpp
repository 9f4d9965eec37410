// The table c: a virtual table whose rows are the configs of one batch, and the statement that reads it.
#include "catalog/filter.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include "catalog/filter_columns.hpp"

namespace tilesmith {

struct Filter::State {
  Operation operation = Operation::attention;
  std::span<const KernelConfig> batch;
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;

  ~State() {
    sqlite3_finalize(statement);
    sqlite3_close(database);
  }
};

namespace {

// SQLite calls back with the structs it knows at their start.
struct Table {
  sqlite3_vtab base;
  const std::span<const KernelConfig>* batch;
  const std::vector<FilterColumn>* columns;
};
struct Cursor {
  sqlite3_vtab_cursor base;
  std::size_t row;
  std::string buffer;
};

struct TableSource {
  const std::span<const KernelConfig>* batch;
  Operation operation;
};

int connect(sqlite3* database, void* aux, int, const char* const*, sqlite3_vtab** out, char**) {
  const auto& source = *static_cast<const TableSource*>(aux);
  const auto& columns = filter_columns(source.operation);
  std::string declaration = "CREATE TABLE c(";
  for (std::size_t i = 0; i < columns.size(); ++i)
    declaration += fmt::format("{}\"{}\"", i > 0 ? "," : "", columns[i].name);
  declaration += ")";
  if (const int code = sqlite3_declare_vtab(database, declaration.c_str()); code != SQLITE_OK) return code;
  *out = reinterpret_cast<sqlite3_vtab*>(new Table{{}, source.batch, &columns});
  return SQLITE_OK;
}
int disconnect(sqlite3_vtab* table) {
  delete reinterpret_cast<Table*>(table);
  return SQLITE_OK;
}
int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
  info->estimatedCost = 1e6;  // there is one plan: walk the batch
  return SQLITE_OK;
}
int open_cursor(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
  *out = reinterpret_cast<sqlite3_vtab_cursor*>(new Cursor{{}, 0, {}});
  return SQLITE_OK;
}
int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete reinterpret_cast<Cursor*>(cursor);
  return SQLITE_OK;
}
int rewind_cursor(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
  reinterpret_cast<Cursor*>(cursor)->row = 0;
  return SQLITE_OK;
}
int next_row(sqlite3_vtab_cursor* cursor) {
  ++reinterpret_cast<Cursor*>(cursor)->row;
  return SQLITE_OK;
}
int at_end(sqlite3_vtab_cursor* cursor) {
  const auto* table = reinterpret_cast<const Table*>(cursor->pVtab);
  return reinterpret_cast<Cursor*>(cursor)->row >= table->batch->size() ? 1 : 0;
}
int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int index) {
  auto& cursor = *reinterpret_cast<Cursor*>(base);
  const auto& table = *reinterpret_cast<const Table*>(base->pVtab);
  const FilterValue value =
      filter_value((*table.columns)[static_cast<std::size_t>(index)], (*table.batch)[cursor.row], cursor.buffer);
  if (value.is_text)
    // Names of enumerations outlive the statement; what was put together in the buffer does not.
    sqlite3_result_text(context, value.text.data(), static_cast<int>(value.text.size()),
                        value.text.data() == cursor.buffer.data() ? SQLITE_TRANSIENT : SQLITE_STATIC);
  else
    sqlite3_result_int64(context, value.number);
  return SQLITE_OK;
}
int row_id(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = static_cast<sqlite3_int64>(reinterpret_cast<Cursor*>(cursor)->row);
  return SQLITE_OK;
}

const sqlite3_module& table_module() {
  static const sqlite3_module module = [] {
    sqlite3_module m{};
    m.xConnect = connect;  // without xCreate the table exists by itself, under the module's name
    m.xDisconnect = disconnect;
    m.xDestroy = disconnect;
    m.xBestIndex = best_index;
    m.xOpen = open_cursor;
    m.xClose = close_cursor;
    m.xFilter = rewind_cursor;
    m.xNext = next_row;
    m.xEof = at_end;
    m.xColumn = column;
    m.xRowid = row_id;
    return m;
  }();
  return module;
}

/// One SELECT that reads c, and the two operators that are functions inside.
int authorize(void*, int action, const char* first, const char* second, const char*, const char*) {
  const auto is = [](const char* text, std::string_view wanted) { return text != nullptr && text == wanted; };
  switch (action) {
    case SQLITE_SELECT:
      return SQLITE_OK;
    case SQLITE_READ:
      return is(first, "c") ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
      return is(second, "like") || is(second, "glob") ? SQLITE_OK : SQLITE_DENY;
    default:
      return SQLITE_DENY;
  }
}

}  // namespace

Filter::Filter(std::unique_ptr<State> state) : state_(std::move(state)) {}
Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;
Filter::~Filter() = default;

Result<Filter> Filter::compile(std::string_view expression, Operation operation) {
  const std::string copy(expression);
  return compile_all(std::span(&copy, 1), operation);
}

Result<Filter> Filter::compile_all(std::span<const std::string> expressions, Operation operation) {
  auto state = std::make_unique<State>();
  state->operation = operation;
  std::string condition;
  for (const std::string& expression : expressions) {
    TS_ASSIGN(const std::string sql, filter_to_sql(expression, operation));
    condition += fmt::format("{}({})", condition.empty() ? "" : " AND ", sql);
  }
  if (condition.empty()) return Filter(std::move(state));

  const auto broken = [&](std::string_view what) {
    return fail(
        ErrorCode::internal,
        fmt::format("{}: {}", what, state->database == nullptr ? "out of memory" : sqlite3_errmsg(state->database)));
  };
  if (sqlite3_open_v2(":memory:", &state->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK)
    return broken("cannot open a database in memory");
  auto source = std::make_unique<TableSource>(TableSource{&state->batch, operation});
  const auto release = [](void* p) { delete static_cast<TableSource*>(p); };
  if (sqlite3_create_module_v2(state->database, "c", &table_module(), source.release(), release) != SQLITE_OK)
    return broken("cannot register the table c");
  // The table declares itself when it is first named, which is no reading: that comes before the authorizer.
  if (sqlite3_exec(state->database, "SELECT rowid FROM c", nullptr, nullptr, nullptr) != SQLITE_OK)
    return broken("cannot declare the table c");
  sqlite3_limit(state->database, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(state->database, SQLITE_LIMIT_EXPR_DEPTH, 1000);
  sqlite3_limit(state->database, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 256);
  sqlite3_set_authorizer(state->database, authorize, nullptr);
  const std::string query = fmt::format("SELECT rowid FROM c WHERE {}", condition);
  if (sqlite3_prepare_v3(state->database, query.c_str(), static_cast<int>(query.size()), SQLITE_PREPARE_PERSISTENT,
                         &state->statement, nullptr) != SQLITE_OK)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the filter is no expression: {}", sqlite3_errmsg(state->database)),
                "for example: c.hdim_q == 128 and c.pipeline in ('qr', 'qr_async')");
  return Filter(std::move(state));
}

Status Filter::select(std::span<const KernelConfig> batch, std::vector<bool>& keep) const {
  keep.assign(batch.size(), state_->statement == nullptr);
  if (state_->statement == nullptr) return {};
  state_->batch = batch;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(state_->statement)) == SQLITE_ROW)
    keep[static_cast<std::size_t>(sqlite3_column_int64(state_->statement, 0))] = true;
  sqlite3_reset(state_->statement);
  state_->batch = {};
  if (code != SQLITE_DONE)
    return fail(ErrorCode::invalid_argument, fmt::format("the filter failed: {}", sqlite3_errmsg(state_->database)));
  return {};
}

}  // namespace tilesmith
