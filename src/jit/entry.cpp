#include "jit/entry.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_error.hpp"
#include "jit/shared_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

// Raised when the meaning of a stored file changes, or that of a kernel's name or key (kCanonicalVersion). The version
// is part of an entry's key, so entries of other versions are never found.
//   1  keys of kernels held every field
//   2  keys of kernels hold their origin and the fields that differ from their defaults
constexpr int kSchema = 2;
constexpr std::uint64_t kLargestManifest = 4ull << 20;
constexpr std::uint64_t kLargestFile = 1ull << 30;
constexpr std::size_t kLongestSymbol = 1000;  // an instance's name with a long epilogue passes 200

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= kLongestSymbol && letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || digit(c); });
}

std::string_view language_name(Language language) {
  switch (language) {
    case Language::cpp:
      return "cpp";
    case Language::cuda:
      return "cuda";
    case Language::hip:
      return "hip";
    case Language::ck:
      return "ck";
  }
  return "";
}

std::unexpected<Error> corrupt(const fs::path& path, std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("{}: {}", path.string(), what));
}

/// Why something could not be opened: `corrupt`, unless this process is short of what opening takes, which says nothing
/// about the entry.
std::unexpected<Error> cannot_open(const fs::path& path, int reason) {
  Error error = system_error("cannot open", path, reason);
  if (reason != EMFILE && reason != ENFILE && reason != ENOMEM) error.code = ErrorCode::corrupt;
  return std::unexpected(std::move(error));
}

json describe(std::string_view content) {
  return {{"bytes", content.size()}, {"sha256", to_hex(sha256(content))}};
}

/// A file of an entry, opened inside its directory's descriptor so that no link leads elsewhere, and refused when
/// others could change it.
Result<std::string> read_member(int directory_fd, const fs::path& directory, const char* name, std::uint64_t limit) {
  const fs::path path = directory / name;
  const FileDescriptor file(::openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) return cannot_open(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return corrupt(path, "not a regular file");
  if ((status.st_uid != ::geteuid() && status.st_uid != 0) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return corrupt(path, "can be changed by other users");
  auto content = read_descriptor(file.get(), path, limit);
  if (!content) return corrupt(path, content.error().message);
  return content;
}

struct Checked {
  std::string content;
  Sha256 digest{};
};

Result<Checked> check_member(int directory_fd, const fs::path& directory, const char* name, const json& files) {
  const json& expected = files.at(name);
  TS_ASSIGN(std::string content, read_member(directory_fd, directory, name, kLargestFile));
  if (content.size() != expected.at("bytes").get<std::uint64_t>()) return corrupt(directory / name, "wrong size");
  Checked found{{}, sha256(content)};
  if (to_hex(found.digest) != expected.at("sha256").get<std::string>())
    return corrupt(directory / name, "wrong digest");
  found.content = std::move(content);
  return found;
}

/// The version of an entry that another version of the program wrote. A manifest whose two statements of the version
/// disagree is damaged and of no version.
std::optional<int> other_version(const json& manifest) {
  const auto stated = [](const json& object) {
    const auto schema = object.is_object() ? object.find("schema") : object.end();
    return object.is_object() && schema != object.end() && schema->is_number_integer() ? schema->get<int>() : kSchema;
  };
  if (!manifest.is_object() || !manifest.contains("key")) return std::nullopt;
  const int version = stated(manifest);
  if (version == kSchema || version != stated(manifest.at("key"))) return std::nullopt;
  return version;
}

Result<StoredEntry> read_manifested(int directory_fd, const fs::path& directory, const json& manifest,
                                    const EntryKey* key) {
  if (const auto version = other_version(manifest)) {
    // Under a key of this version nothing else can lie.
    if (key != nullptr) return corrupt(directory, "is an entry of another version");
    return fail(ErrorCode::unsupported, fmt::format("{}: an entry of version {}", directory.string(), *version));
  }
  if (manifest.at("schema") != kSchema) return corrupt(directory, "unknown schema");
  const std::string key_text = manifest.at("key").dump();
  if (key != nullptr ? key_text != key->text : to_hex(sha256(key_text)) != directory.filename())
    return corrupt(directory, "is the entry of another key");
  const json& files = manifest.at("files");
  TS_TRY(check_member(directory_fd, directory, "source", files));
  TS_TRY(check_member(directory_fd, directory, "log", files));
  StoredEntry entry;
  entry.name = manifest.at("name").get<std::string>();
  entry.arch = manifest.at("key").at("arch").get<std::string>();
  if (manifest.at("status") == "failed") {
    entry.failure = Error{ErrorCode::compile_failed, manifest.at("reason").get<std::string>(),
                          manifest.at("hint").get<std::string>()};
    entry.failed_at =
        std::chrono::system_clock::time_point(std::chrono::seconds(manifest.at("failed_at").get<std::int64_t>()));
    return entry;
  }
  if (manifest.at("status") != "ok") return corrupt(directory, "unknown status");
  TS_ASSIGN(const Checked binary, check_member(directory_fd, directory, "binary", files));
  const std::string symbol = manifest.at("key").at("entry_symbol").get<std::string>();
  // The digest says that these are the bytes that were published; whether the loader survives them is another question,
  // which was not always asked before publishing.
  if (manifest.at("key").at("language") == language_name(Language::cpp))
    if (const Status whole = check_shared_object(binary.content, std::span(&symbol, 1)); !whole)
      return corrupt(directory / "binary", whole.error().message);
  entry.binary = {directory / "binary", symbol, binary.content.size(), binary.digest, true};
  if (const auto resources = manifest.find("resources"); resources != manifest.end())
    entry.binary.resources = resource_report_from_json(*resources);
  return entry;
}

}  // namespace

Result<EntryKey> entry_key(const Source& source, std::string_view toolchain) {
  if (!is_identifier(source.entry_symbol))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' cannot be an entry symbol", source.name, source.entry_symbol),
                fmt::format("letters, digits and underscores, at most {}", kLongestSymbol));
  // nlohmann's objects are ordered by name: the text is canonical.
  json key = {
      {"schema", kSchema},         {"language", language_name(source.language)}, {"arch", source.arch},
      {"options", source.options}, {"entry_symbol", source.entry_symbol},        {"source", describe(source.text)},
      {"toolchain", toolchain}};
  if (source.spill_limit_bytes > 0) key["spill_limit_bytes"] = source.spill_limit_bytes;
  try {
    std::string text = key.dump();
    std::string digest = to_hex(sha256(text));
    return EntryKey{std::move(text), std::move(digest)};
  } catch (const json::exception&) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: an option or the arch is not UTF-8", source.name));
  }
}

Result<std::string> Binary::read() const {
  TS_ASSIGN(std::string content, read_file(path, kLargestFile));
  if (sha256(content) != digest) return corrupt(path, "changed since it was handed out");
  return content;
}

// Only the binary and the manifest are synced, and no directory is: an fsync costs 1 to 5 ms, and an entry that a power
// failure tears has a wrong digest and is compiled again. What must not happen, that a torn file is taken for a whole
// one, does not depend on any sync.
Status write_entry(const fs::path& directory, const EntryKey& key, const Source& source, const EntryContent& content) {
  json files = {{"source", describe(source.text)}, {"log", describe(content.log)}};
  TS_TRY(write_new_file(directory / "source", source.text));
  TS_TRY(write_new_file(directory / "log", content.log));
  json manifest = {{"schema", kSchema}, {"name", source.name}, {"key", json::parse(key.text)}};
  if (content.failure) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    manifest["status"] = "failed";
    manifest["reason"] = content.failure->message;
    manifest["hint"] = content.failure->hint;
    manifest["failed_at"] = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  } else {
    manifest["status"] = "ok";
    files["binary"] = describe(content.binary);
    if (content.resources) manifest["resources"] = to_json(*content.resources);
    const bool linked =
        !content.same_binary.empty() && ::link(content.same_binary.c_str(), (directory / "binary").c_str()) == 0;
    if (!linked) TS_TRY(write_new_file(directory / "binary", content.binary, Sync::yes));
  }
  manifest["files"] = std::move(files);
  // A compiler may say anything: what is not UTF-8 is replaced in the reason, and kept as it is in the log.
  const std::string text = manifest.dump(1, ' ', false, json::error_handler_t::replace);
  return write_new_file(directory / "manifest.json", text, Sync::yes);
}

bool is_of_other_version(const fs::path& directory) {
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) return false;
  const auto text = read_member(opened.get(), directory, "manifest.json", kLargestManifest);
  if (!text) return false;
  const json manifest = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return other_version(manifest).has_value();
}

Result<StoredEntry> read_entry(const fs::path& directory, const EntryKey* key) {
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) {
    if (errno == ENOENT) return std::unexpected(system_error("no entry", directory, ENOENT));
    return cannot_open(directory, errno);
  }
  TS_ASSIGN(const std::string text, read_member(opened.get(), directory, "manifest.json", kLargestManifest));
  // The parser takes a NUL for the end and would not look at what follows.
  if (text.find('\0') != std::string::npos) return corrupt(directory / "manifest.json", "a NUL in it");
  try {
    return read_manifested(opened.get(), directory, json::parse(text), key);
  } catch (const json::exception& error) {
    return corrupt(directory / "manifest.json", words_of(error));
  }
}

}  // namespace tilesmith
