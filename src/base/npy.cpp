#include "base/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/file.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderLimit = 64 << 10;  // a header is about 60 bytes and 20 a dimension
constexpr std::size_t kMaxRank = 64;            // NumPy's own limit since 2.0
constexpr std::size_t kAlignment = 64;          // the elements start at a multiple of this

// NumPy's two characters for a type; bf16 and fp8 have none.
constexpr std::pair<ElementType, std::string_view> kCodes[] = {
    {ElementType::fp64, "f8"},   {ElementType::fp32, "f4"},   {ElementType::fp16, "f2"},  {ElementType::int64, "i8"},
    {ElementType::int32, "i4"},  {ElementType::int16, "i2"},  {ElementType::int8, "i1"},  {ElementType::uint64, "u8"},
    {ElementType::uint32, "u4"}, {ElementType::uint16, "u2"}, {ElementType::uint8, "u1"}, {ElementType::boolean, "b1"},
};

std::unexpected<Error> broken(std::string message, std::string hint = {}) {
  return fail(ErrorCode::parse, std::move(message), std::move(hint));
}

// Reads the dictionary literal of a header, as much Python as NumPy writes: strings, booleans, tuples of integers.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  Status parse() {
    TS_TRY(expect('{'));
    while (!accept('}')) {
      TS_ASSIGN(const std::string key, string());
      TS_TRY(expect(':'));
      if (key == "descr" && !descr) {
        TS_ASSIGN(descr, string());
      } else if (key == "fortran_order" && !fortran_order) {
        TS_ASSIGN(fortran_order, boolean());
      } else if (key == "shape" && !shape) {
        TS_ASSIGN(shape, tuple());
      } else {
        return broken(fmt::format("the header's key '{}' is unknown or there twice", key),
                      "keys are descr, fortran_order, shape");
      }
      if (!accept(',')) {
        TS_TRY(expect('}'));
        break;
      }
    }
    skip();
    if (at_ != text_.size()) return unexpected_text("the end of the header");
    if (!descr || !fortran_order || !shape)
      return broken("the header lacks descr, fortran_order or shape", "np.save writes all three");
    return {};
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::unexpected<Error> unexpected_text(std::string_view wanted) {
    return broken(fmt::format("the header has '{:.20}' at byte {} where {} should be", text_.substr(at_), at_, wanted));
  }
  Status expect(char c) {
    if (accept(c)) return {};
    return unexpected_text(fmt::format("'{}'", c));
  }
  Result<std::string> string() {
    const char quote = accept('\'') ? '\'' : accept('"') ? '"' : '\0';
    if (quote == '\0') return unexpected_text("a string");
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return unexpected_text("the end of a string");
    return std::string(text_.substr(std::exchange(at_, end + 1), end - at_));
  }
  Result<bool> boolean() {
    skip();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    return unexpected_text("True or False");
  }
  Result<std::vector<std::int64_t>> tuple() {
    TS_TRY(expect('('));
    std::vector<std::int64_t> sizes;
    while (!accept(')')) {
      skip();
      std::int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{}) return unexpected_text("a size below 2^63");
      at_ += static_cast<std::size_t>(end - begin);
      sizes.push_back(size);
      if (sizes.size() > kMaxRank) return broken(fmt::format("the shape has more than {} dimensions", kMaxRank));
      if (!accept(',')) {
        TS_TRY(expect(')'));
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<ElementType> type_of(const std::string& descr) {
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view code = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  for (const auto& [type, known] : kCodes) {
    if (known != code) continue;
    if (order == '<' || (order == '|' && size_of(type) == 1)) return type;
    if (order == '>')
      return broken(fmt::format("the elements are big-endian ('{}')", descr),
                    fmt::format("array.astype('<{}')", known));
  }
  std::vector<std::string_view> codes;
  for (const auto& [type, known] : kCodes) codes.push_back(known);
  return broken(fmt::format("element type '{}' is not supported", descr),
                fmt::format("little-endian {}; bfloat16 and float8 arrays as float32: array.astype('<f4')",
                            fmt::join(codes, ", ")));
}

// Column-major elements into row-major order.
void reorder(const std::byte* source, HostArray& array) {
  const std::size_t width = size_of(array.type);
  const std::size_t rank = array.shape.size();
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t d = 1; d < rank; ++d) strides[d] = strides[d - 1] * static_cast<std::size_t>(array.shape[d - 1]);
  std::vector<std::int64_t> index(rank, 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < array.count(); ++to) {
    std::memcpy(array.data.data() + to * width, source + from * width, width);
    for (std::size_t d = rank; d-- > 0;) {
      from += strides[d];
      if (++index[d] < array.shape[d]) break;
      from -= strides[d] * static_cast<std::size_t>(array.shape[d]);
      index[d] = 0;
    }
  }
}

}  // namespace

Result<HostArray> parse_npy(std::string_view file) {
  if (!file.starts_with(kMagic))
    return broken("this is no .npy file: it does not begin with \\x93NUMPY", "np.save writes one");
  if (file.size() < 10) return broken(fmt::format("the file ends after {} bytes, inside its header", file.size()));
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(file[at])); };
  const std::size_t major = byte(6);
  if (major != 1 && major != 2)
    return broken(fmt::format("format version {}.{} is not supported", major, byte(7)), "versions 1.0 and 2.0 are");
  const std::size_t start = major == 1 ? 10 : 12;
  if (file.size() < start) return broken(fmt::format("the file ends after {} bytes, inside its header", file.size()));
  std::size_t length = byte(8) | byte(9) << 8;
  if (major == 2) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kHeaderLimit)
    return broken(fmt::format("the header claims {} bytes", length), fmt::format("at most {} are read", kHeaderLimit));
  if (file.size() - start < length)
    return broken(fmt::format("the header claims {} bytes, the file has {} left", length, file.size() - start));

  Header header(file.substr(start, length));
  TS_TRY(header.parse());
  HostArray array;
  TS_ASSIGN(array.type, type_of(*header.descr));
  array.shape = *header.shape;
  TS_ASSIGN(const std::uint64_t bytes, byte_size(array.type, array.shape));
  const std::string_view elements = file.substr(start + length);
  if (elements.size() != bytes)
    return broken(fmt::format("{} bytes of elements follow the header", elements.size()),
                  fmt::format("shape {} of {} takes {}", shape_text(array.shape), to_string(array.type), bytes));
  const auto* source = reinterpret_cast<const std::byte*>(elements.data());
  if (*header.fortran_order && array.shape.size() > 1) {
    array.data.resize(bytes);
    reorder(source, array);
  } else {
    array.data.assign(source, source + bytes);
  }
  return array;
}

Result<HostArray> read_npy(const std::filesystem::path& path, std::uint64_t limit) {
  TS_ASSIGN(const std::string file, read_file(path, limit));
  Result<HostArray> array = parse_npy(file);
  if (!array) return std::unexpected(array.error().in(path.string()));
  return array;
}

Result<std::string> npy_content(const HostArray& array) {
  const auto* code = std::ranges::find(kCodes, array.type, &std::pair<ElementType, std::string_view>::first);
  if (code == std::end(kCodes)) return npy_content(make_array(ElementType::fp32, array.shape, array.to_floats()));
  TS_ASSIGN(const std::uint64_t bytes, byte_size(array.type, array.shape));
  if (bytes != array.data.size())
    return fail(ErrorCode::invalid_argument, fmt::format("{} bytes of elements", array.data.size()),
                fmt::format("shape {} of {} takes {}", shape_text(array.shape), to_string(array.type), bytes));
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                   size_of(array.type) == 1 ? '|' : '<', code->second, shape_text(array.shape));
  const std::size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ').push_back('\n');
  std::string file(kMagic);
  file.append({'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)});
  file.append(header).append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return file;
}

Status write_npy(const std::filesystem::path& path, const HostArray& array) {
  TS_ASSIGN(const std::string content, npy_content(array));
  return write_file_atomic(path, content);
}

}  // namespace tilesmith
