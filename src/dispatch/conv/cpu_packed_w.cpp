#include "dispatch/conv/cpu_packed_w.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dispatch/cpu_packed.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {
namespace {

constexpr std::uint8_t kWVersion = 3;  // counts up when panels or this header are laid out otherwise

}  // namespace

PackedWHeader PackedWHeader::of(const ConvProblem& p, const KernelConfig& config, std::int64_t bytes) {
  PackedWHeader header{};
  std::ranges::copy(kMagic, header.magic);
  std::ranges::copy(config.arch.text(), header.arch);
  header.groups = p.groups;
  header.c = p.c;
  header.k = p.k;
  std::ranges::copy(p.filter(), header.filter);
  header.dilation_w = p.dilation_w;
  header.bytes = bytes;
  header.direction = p.direction;
  header.data_type = p.data_type;
  header.instruction = config.algorithm.instruction;
  header.pipeline = config.algorithm.pipeline;
  header.version = kWVersion;
  header.checksum = packed_checksum(header);
  return header;
}

std::string PackedWHeader::text() const {
  const std::string_view name(arch, ::strnlen(arch, sizeof(arch)));
  return fmt::format("{} of {}, groups {}, c {}, k {}, filter {}x{}x{}{}, for {} with {} on {}", name_of(direction),
                     name_of(data_type), groups, c, k, filter[0], filter[1], filter[2],
                     dilation_w == 1 ? "" : fmt::format(", dilation_w {}", dilation_w), name_of(pipeline),
                     name_of(instruction), name);
}

}  // namespace tilesmith
