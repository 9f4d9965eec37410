#include "catalog/listing_output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/json.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/field_value.hpp"
#include "vocabulary/names/ck.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

/// A buffer in front of a file descriptor. After a failed write everything is swallowed and the first error is kept.
class Output {
 public:
  explicit Output(int file) : file_(file), buffer_(std::make_unique<char[]>(kSize)) {}

  /// Room for `bytes` (at most kSize); `advance` says how far it was written.
  char* room(std::size_t bytes) {
    if (kSize - used_ < bytes) flush();
    return buffer_.get() + used_;
  }
  void advance(const char* end) { used_ = static_cast<std::size_t>(end - buffer_.get()); }
  void put(std::string_view text) {
    while (!text.empty()) {
      const std::size_t piece = std::min(text.size(), kSize);
      std::memcpy(room(piece), text.data(), piece);
      used_ += piece;
      text.remove_prefix(piece);
    }
  }
  void flush() {
    const char* at = buffer_.get();
    while (used_ > 0 && status_) {
      const ssize_t written = ::write(file_, at, used_);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        status_ = fail(ErrorCode::io, fmt::format("writing the list: {}", std::strerror(errno)));
        break;
      }
      at += written;
      used_ -= static_cast<std::size_t>(written);
    }
    used_ = 0;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kSize = 1u << 18;
  int file_;
  std::unique_ptr<char[]> buffer_;
  std::size_t used_ = 0;
  Status status_;
};

// Names, values of enumerations and architectures are over [A-Za-z0-9_=.+-], so nothing in a config needs escaping in
// JSON or CSV.
template <class T>
void append_json_value(std::string& out, const T& value) {
  if constexpr (FlagField<T>) {
    out += value ? "true" : "false";
  } else if constexpr (EnumField<T>) {
    out += '"';
    out += name_of(value);
    out += '"';
  } else if constexpr (IntegerField<T>) {
    append_integer(out, static_cast<long long>(value));
  } else if constexpr (ListField<T>) {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      append_json_value(out, value[i]);
    }
    out += ']';
  } else {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      append_integer(out, static_cast<long long>(value[i]));
    }
    out += ']';
  }
}

template <class S>
void append_json_fields(std::string& out, const S& object) {
  char before = '{';
  S::fields(object, [&](std::string_view field, const auto& value) {
    out += before;
    out += '"';
    out += field;
    out += "\":";
    append_json_value(out, value);
    before = ',';
  });
  out += '}';
}

void append_json(std::string& out, const KernelConfig& config) {
  out += R"({"name":")";
  out += kernel_name(config);
  out += R"(","key":")";
  out += key_of(config).hex();
  out += R"(","arch":")";
  out += config.arch.text();
  out += R"(","operation":")";
  out += name_of(config.operation());
  out += R"(","origin":")";
  out += name_of(config.origin);
  out += R"(","signature":)";
  std::visit([&](const auto& signature) { append_json_fields(out, signature); }, config.signature);
  out += R"(,"algorithm":)";
  append_json_fields(out, config.algorithm);
  out += '}';
}

void append_csv_header(std::string& out, Operation operation) {
  out += "name,key,arch,operation,origin";
  const auto add = [&out](std::string_view field, const auto&) {
    out += ',';
    out += field;
  };
  const auto add_all = [&]<class S>(const S& object) { S::fields(object, add); };
  switch (operation) {
    case Operation::attention:
      add_all(AttentionSignature{});
      break;
    case Operation::gemm:
      add_all(GemmSignature{});
      break;
    case Operation::conv:
      add_all(ConvSignature{});
      break;
  }
  add_all(Algorithm{});
  out += '\n';
}

void append_csv(std::string& out, const KernelConfig& config) {
  out += kernel_name(config);
  out += ',';
  out += key_of(config).hex();
  out += ',';
  out += config.arch.text();
  out += ',';
  out += name_of(config.operation());
  out += ',';
  out += name_of(config.origin);
  const auto add = [&out](std::string_view, const auto& value) {
    out += ',';
    append_value(out, value);
  };
  std::visit([&](const auto& signature) { signature.fields(signature, add); }, config.signature);
  Algorithm::fields(config.algorithm, add);
  out += '\n';
}

/// What was asked for, so that a list can be made again.
std::string request_json(const ListRequest& request) {
  nlohmann::json out = {{"arch", request.arch},
                        {"operation", name_of(request.operation)},
                        {"variant", request.variant.empty() ? "all" : request.variant},
                        {"mode", name_of(request.mode)},
                        {"origin", request.origin ? name_of(*request.origin) : "default"},
                        {"data_types", request.data_types},
                        {"filters", request.filters},
                        {"filter_files", request.filter_files}};
  switch (request.operation) {
    case Operation::attention:
      out["receipt"] = request.receipt;
      out["head_dims"] = request.head_dims;
      out["sweep_file"] = request.sweep_file;
      break;
    case Operation::gemm:
      out["layout"] = request.layout;
      out["rule_set"] = request.rule_set;
      break;
    case Operation::conv:
      out["rule_set"] = request.rule_set;
      out["spatial_dims"] = request.spatial_dims;
      break;
  }
  return out.dump();
}

Status walk_names(const Listing& listing, Output& out, ListStatistics& statistics) {
  return listing.walk(
      [&](const KernelConfig& config) {
        if (config.origin == Origin::own) {
          out.put(kernel_name(config));
          out.put("\n");
        } else {
          char* end = write_ck_name(config, out.room(kMaxCkName + 1));
          *end++ = '\n';
          out.advance(end);
        }
        return out.status().has_value();
      },
      statistics);
}

Status walk_json(const Listing& listing, Output& out, ListStatistics& statistics, std::string_view between) {
  std::string text;
  bool first = true;
  return listing.walk(
      [&](const KernelConfig& config) {
        text.clear();
        if (!first) text += between;
        first = false;
        append_json(text, config);
        out.put(text);
        return out.status().has_value();
      },
      statistics);
}

Status walk_csv(const Listing& listing, Output& out, ListStatistics& statistics) {
  std::string text;
  append_csv_header(text, listing.request().operation);
  out.put(text);
  return listing.walk(
      [&](const KernelConfig& config) {
        text.clear();
        append_csv(text, config);
        out.put(text);
        return out.status().has_value();
      },
      statistics);
}

/// One exported kernel: name and key are there to be read by people and tools; the config is what counts.
Result<KernelConfig> import_kernel(const std::string& where, nlohmann::json kernel) {
  if (!kernel.is_object())
    return fail(ErrorCode::parse, fmt::format("{} is no object", where), "a kernel as tilesmith list --json writes it");
  const auto take_text = [&](const char* field) {
    std::string text;
    if (const auto found = kernel.find(field); found != kernel.end() && found->is_string())
      text = found->get<std::string>();
    kernel.erase(field);
    return text;
  };
  const std::string name = take_text("name");
  const std::string key = take_text("key");
  // Lists of earlier versions hold keys of another format and no origin: their kernels must not be taken for own ones.
  if (!kernel.contains("origin") && !key.empty())
    return fail(ErrorCode::parse,
                fmt::format("{}: the kernel has no origin: an earlier version wrote this list", where),
                "export the list again");
  auto config = config_from_json(kernel);
  if (!config) return std::unexpected(config.error().in(where));
  if (!name.empty() && name != kernel_name(*config))
    return fail(ErrorCode::parse, fmt::format("{}: the name is {}, but the config is {}", where, name.substr(0, 200),
                                              kernel_name(*config)));
  if (!key.empty() && key != key_of(*config).hex())
    return fail(ErrorCode::parse, fmt::format("{}: the key is {}, but the config's is {}", where, key.substr(0, 64),
                                              key_of(*config).hex()));
  return config;
}

}  // namespace

std::string statistics_text(const ListStatistics& statistics) {
  std::string out = fmt::format("enumerated {}\nlisted {}\n", statistics.enumerated, statistics.listed);
  for (const auto& [family, count] : statistics.families) out += fmt::format("  {} {}\n", family, count);
  if (statistics.filtered > 0) out += fmt::format("filtered {}\n", statistics.filtered);
  std::uint64_t dropped = 0;
  for (const auto& each : statistics.dropped) dropped += each.count;
  if (dropped > 0) out += fmt::format("dropped {}\n", dropped);
  for (const auto& [rule, count] : statistics.dropped) out += fmt::format("  {} {}\n", rule, count);
  return out;
}

std::string statistics_json(const ListStatistics& statistics) {
  nlohmann::json out = {
      {"enumerated", statistics.enumerated}, {"listed", statistics.listed}, {"filtered", statistics.filtered}};
  out["families"] = nlohmann::json::object();
  for (const auto& [family, count] : statistics.families) out["families"][family] = count;
  out["dropped"] = nlohmann::json::object();
  for (const auto& [rule, count] : statistics.dropped) out["dropped"][rule] = count;
  return out.dump();
}

Result<ListStatistics> write_listing(const Listing& listing, ListFormat format, int file) {
  Output out(file);
  ListStatistics statistics;
  switch (format) {
    case ListFormat::count:
      TS_TRY(listing.walk([](const KernelConfig&) { return true; }, statistics));
      out.put(fmt::format("{}\n", statistics.listed));
      break;
    case ListFormat::names:
      TS_TRY(walk_names(listing, out, statistics));
      break;
    case ListFormat::ndjson:
      TS_TRY(walk_json(listing, out, statistics, "\n"));
      if (statistics.listed > 0) out.put("\n");
      break;
    case ListFormat::json:
      out.put(fmt::format("{{\"request\":{},\n\"kernels\":[\n", request_json(listing.request())));
      TS_TRY(walk_json(listing, out, statistics, ",\n"));
      out.put(fmt::format("\n],\n\"statistics\":{}}}\n", statistics_json(statistics)));
      break;
    case ListFormat::csv:
      TS_TRY(walk_csv(listing, out, statistics));
      break;
  }
  out.flush();
  TS_TRY(out.status());
  return statistics;
}

Result<std::vector<KernelConfig>> import_listing(std::string_view file, std::string_view text) {
  std::vector<KernelConfig> out;
  // A whole document starts with its request; anything else is one kernel a line.
  if (text.starts_with("{\"request\"")) {
    TS_ASSIGN(const auto document, JsonReader::parse(file, text));
    const auto kernels = document.find("kernels");
    if (kernels == document.end() || !kernels->is_array())
      return fail(ErrorCode::parse, fmt::format("{}: $.kernels is no array", file));
    for (std::size_t i = 0; i < kernels->size(); ++i) {
      TS_ASSIGN(const KernelConfig config, import_kernel(fmt::format("{}: $.kernels[{}]", file, i), (*kernels)[i]));
      out.push_back(config);
    }
    return out;
  }
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (const std::string_view piece = text.substr(at, end - at); !piece.empty()) {
      TS_ASSIGN(const auto document, JsonReader::parse(fmt::format("{}:{}", file, line), piece));
      TS_ASSIGN(const KernelConfig config, import_kernel(fmt::format("{}:{}", file, line), document));
      out.push_back(config);
    }
    at = end + 1;
  }
  return out;
}

}  // namespace tilesmith
