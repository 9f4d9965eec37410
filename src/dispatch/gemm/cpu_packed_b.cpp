#include "dispatch/gemm/cpu_packed_b.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dispatch/cpu_packed.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {
namespace {

constexpr std::uint8_t kVersion = 2;  // counts up when panels or this header are laid out otherwise

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
  header.checksum = packed_checksum(header);
  return header;
}

Status PackedHeader::check(const void* packed, std::int64_t known_bytes) const {
  return check_packed(*this, packed, known_bytes);
}

std::string PackedHeader::text() const {
  const std::string_view name(arch, ::strnlen(arch, sizeof(arch)));
  return fmt::format("{} x {}, n {}, k {}, for {} of {} in blocks of {}", name_of(type_a), name_of(type_b), n, k,
                     name_of(instruction), name, tile_k);
}

}  // namespace tilesmith
