#include "base/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <span>

#include "base/json.hpp"
#include "base/nearest.hpp"

namespace tilesmith {
namespace {

constexpr std::uint64_t kHeaderLimit = 100'000'000;  // the format's own bound
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::pair<ElementType, std::string_view> kCodes[] = {
    {ElementType::fp64, "F64"},   {ElementType::fp32, "F32"},        {ElementType::fp16, "F16"},
    {ElementType::bf16, "BF16"},  {ElementType::fp8e4m3, "F8_E4M3"}, {ElementType::fp8e5m2, "F8_E5M2"},
    {ElementType::int64, "I64"},  {ElementType::int32, "I32"},       {ElementType::int16, "I16"},
    {ElementType::int8, "I8"},    {ElementType::uint64, "U64"},      {ElementType::uint32, "U32"},
    {ElementType::uint16, "U16"}, {ElementType::uint8, "U8"},        {ElementType::boolean, "BOOL"},
};

std::unexpected<Error> broken(std::string message, std::string hint = {}) {
  return fail(ErrorCode::parse, std::move(message), std::move(hint));
}

Result<ElementType> type_of(const std::string& code) {
  std::vector<std::string> known;
  for (const auto& [type, name] : kCodes) {
    if (name == code) return type;
    known.emplace_back(name);
  }
  return broken(fmt::format("dtype '{}' is not supported", code), did_you_mean(code, known));
}

Result<std::vector<std::uint64_t>> sizes_of(const nlohmann::json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return broken(fmt::format("'{}' is not a list", key));
  std::vector<std::uint64_t> sizes;
  for (const nlohmann::json& size : *found) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{1} << 62)
      return broken(fmt::format("'{}' holds {}", key, size.dump()), "whole numbers from 0 to 2^62");
    sizes.push_back(size.get<std::uint64_t>());
  }
  return sizes;
}

Result<SafetensorsFile::Entry> entry_of(const nlohmann::json& json) {
  if (!json.is_object())
    return broken("the entry is not an object", "{\"dtype\": ..., \"shape\": [...], \"data_offsets\": [...]}");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return broken("'dtype' is not a string");
  SafetensorsFile::Entry entry;
  TS_ASSIGN(entry.type, type_of(dtype->get<std::string>()));
  TS_ASSIGN(const std::vector<std::uint64_t> shape, sizes_of(json, "shape"));
  entry.shape.assign(shape.begin(), shape.end());
  TS_ASSIGN(const std::vector<std::uint64_t> offsets, sizes_of(json, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) return broken("'data_offsets' is not [begin, end]");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  TS_ASSIGN(const std::uint64_t bytes, byte_size(entry.type, entry.shape));
  if (bytes != entry.end - entry.begin)
    return broken(fmt::format("data_offsets [{}, {}] hold {} bytes", entry.begin, entry.end, entry.end - entry.begin),
                  fmt::format("shape {} of {} takes {}", shape_text(entry.shape), to_string(entry.type), bytes));
  return entry;
}

// nlohmann's parser lets the last of two equal keys win; two tensors of one name are a broken file.
Result<nlohmann::json> parse_json(const std::string& text) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return broken("the header is not a JSON object");
  if (!twice.empty()) return broken(fmt::format("tensor '{}' is there twice", twice));
  return json;
}

// Exactly `size` bytes from `offset`.
Status read_at(int fd, const std::filesystem::path& path, std::uint64_t offset, void* target, std::uint64_t size) {
  auto* bytes = static_cast<char*>(target);
  while (size > 0) {
    const ssize_t got = ::pread(fd, bytes, std::min<std::uint64_t>(size, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(system_error("cannot read", path, errno));
    if (got == 0)
      return broken(
          fmt::format("{}: the file ends at byte {}, inside what its header announces", path.string(), offset));
    bytes += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) return std::unexpected(system_error("cannot open", path, errno));
  SafetensorsFile file(std::move(descriptor), path);
  if (Status status = file.read_header(); !status) return std::unexpected(status.error().in(path.string()));
  return file;
}

Status SafetensorsFile::read_header() {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return std::unexpected(system_error("cannot look at", path_, errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::invalid_argument, "this is no regular file");
  const auto file_size = static_cast<std::uint64_t>(status.st_size);
  if (file_size < 8)
    return broken(fmt::format("the file has {} bytes", file_size), "a safetensors file has at least 10");
  unsigned char prefix[8];
  TS_TRY(read_at(file_.get(), path_, 0, prefix, sizeof prefix));
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | prefix[i];
  if (length > kHeaderLimit || length > file_size - 8)
    return broken(fmt::format("the header claims {} bytes, the file has {}", length, file_size),
                  fmt::format("at most {}, and inside the file", kHeaderLimit));
  std::string text(length, '\0');
  TS_TRY(read_at(file_.get(), path_, 8, text.data(), length));
  data_start_ = 8 + length;

  TS_ASSIGN(const nlohmann::json json, parse_json(text));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) continue;
    Result<Entry> entry = entry_of(value);
    if (!entry) return std::unexpected(entry.error().in(fmt::format("tensor '{}'", name)));
    extents.emplace_back(entry->begin, entry->end);
    entries_.emplace(name, *std::move(entry));
  }
  std::ranges::sort(extents);
  std::uint64_t covered = 0;
  for (const auto& [begin, end] : extents) {
    if (begin != covered) return broken(fmt::format("the tensors leave a gap or overlap at byte {}", covered));
    covered = end;
  }
  if (covered != file_size - data_start_)
    return broken(fmt::format("{} bytes of tensors follow the header", file_size - data_start_),
                  fmt::format("it announces {}", covered));
  return {};
}

Result<HostArray> SafetensorsFile::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : entries_) names.push_back(known);
    return fail(ErrorCode::not_found, fmt::format("{}: there is no tensor '{}'", path_.string(), name),
                did_you_mean(name, names));
  }
  const Entry& entry = found->second;
  HostArray array{entry.type, entry.shape, std::vector<std::byte>(entry.end - entry.begin)};
  TS_TRY(read_at(file_.get(), path_, data_start_ + entry.begin, array.data.data(), array.data.size()));
  return array;
}

Result<std::string> safetensors_content(const std::vector<std::pair<std::string, HostArray>>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, array] : tensors) {
    TS_ASSIGN(const std::uint64_t bytes, byte_size(array.type, array.shape));
    if (bytes != array.data.size() || name == kMetadata || header.contains(name))
      return fail(ErrorCode::invalid_argument, fmt::format("tensor '{}' cannot be written", name),
                  "a name of its own, and as many bytes as its shape takes");
    const auto* code = std::ranges::find(kCodes, array.type, &std::pair<ElementType, std::string_view>::first);
    header[name] = {{"dtype", code->second}, {"shape", array.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // the format lets tensors be aligned by trailing spaces
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  file += text;
  for (const auto& [name, array] : tensors)
    file.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return file;
}

Status write_safetensors(const std::filesystem::path& path,
                         const std::vector<std::pair<std::string, HostArray>>& tensors) {
  TS_ASSIGN(const std::string content, safetensors_content(tensors));
  return write_file_atomic(path, content);
}

}  // namespace tilesmith
