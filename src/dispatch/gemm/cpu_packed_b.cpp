#include "dispatch/gemm/cpu_packed_b.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "problem/hash_words.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kMagic = "TSPB";
constexpr std::uint8_t kVersion = 1;  // counts up when panels are laid out otherwise

}  // namespace

PackedHeader PackedHeader::of(const GemmProblem& p, const KernelConfig& config, std::int64_t bytes) {
  PackedHeader header{};
  std::ranges::copy(kMagic, header.magic);
  std::ranges::copy(config.arch.text(), header.arch);
  header.n = p.n;
  header.k = p.k;
  header.bytes = bytes;
  header.tile_k = config.algorithm.tile[2];
  header.type_a = p.type_a;
  header.type_b = p.type_b;
  header.instruction = config.algorithm.instruction;
  header.version = kVersion;
  header.checksum = header.sum();
  return header;
}

Status PackedHeader::check(const void* packed, std::int64_t known_bytes) const {
  const auto refuse = [&](std::string what) {
    return fail(ErrorCode::invalid_argument, std::move(what), fmt::format("a buffer that pack_b made for {}", text()));
  };
  const auto header_bytes = static_cast<std::int64_t>(sizeof(PackedHeader));
  if (known_bytes != 0 && known_bytes < header_bytes)
    return refuse(fmt::format("b is a packed buffer of {} bytes, less than its header", known_bytes));
  PackedHeader its;
  std::memcpy(&its, packed, sizeof(its));
  if (std::string_view(its.magic, sizeof(its.magic)) != kMagic) return refuse("b is no buffer that pack_b made");
  if (its.checksum != its.sum()) return refuse("the header of packed b is damaged");
  if (its.version != version)
    return refuse(fmt::format("b was packed in format {}, kernels read format {}", its.version, version));
  PackedHeader wanted = *this;
  wanted.bytes = its.bytes;
  wanted.checksum = wanted.sum();
  if (std::memcmp(&its, &wanted, sizeof(its)) != 0) return refuse(fmt::format("b was packed for {}", its.text()));
  if (known_bytes != 0 && known_bytes < its.bytes)
    return refuse(fmt::format("b is a packed buffer of {} bytes, of which {} are there", its.bytes, known_bytes));
  return {};
}

std::string PackedHeader::text() const {
  const std::string_view name(arch, ::strnlen(arch, sizeof(arch)));
  return fmt::format("{} x {}, n {}, k {}, for {} of {} in blocks of {}", name_of(type_a), name_of(type_b), n, k,
                     name_of(instruction), name, tile_k);
}

std::uint32_t PackedHeader::sum() const {
  std::array<std::uint64_t, 7> words;
  static_assert(sizeof(words) + 8 == sizeof(PackedHeader));
  std::memcpy(words.data(), arch, sizeof(words));
  return static_cast<std::uint32_t>(hash_words({words[0], words[1], words[2], words[3], words[4], words[5], words[6]}));
}

}  // namespace tilesmith
