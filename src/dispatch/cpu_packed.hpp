// What buffers of packed operands have in common: each begins with a header that says what it was made for, and a run
// compares that with what its kernel reads.
//
// A header is 64 or more bytes in whole eights that begin with `magic` and a `checksum` of all that follows. It has
// `bytes`, of the buffer with the header, and the `version` of the panels' format; a text() for people; and of its type
// the magic that it must have, kOperand ("b") and kMaker ("pack_b").
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "problem/hash_words.hpp"

namespace tilesmith {

template <class Header>
[[nodiscard]] std::uint32_t packed_checksum(const Header& header) {
  const auto words = std::bit_cast<std::array<std::uint64_t, sizeof(Header) / 8>>(header);
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i < words.size(); ++i) sum = hash_words({sum, words[i]});
  return static_cast<std::uint32_t>(sum);
}

/// Checks the buffer of a call that asks for panels like those of `wanted`: it is whole, and made for them.
/// `known_bytes` of it there are; 0: the size is not known. Errors: invalid_argument.
template <class Header>
[[nodiscard]] Status check_packed(const Header& wanted, const void* packed, std::int64_t known_bytes) {
  constexpr std::string_view name = Header::kOperand;
  const auto refuse = [&](std::string what) {
    return fail(ErrorCode::invalid_argument, std::move(what),
                fmt::format("a buffer that {} made for {}", Header::kMaker, wanted.text()));
  };
  if (known_bytes != 0 && known_bytes < static_cast<std::int64_t>(sizeof(Header)))
    return refuse(fmt::format("{} is a packed buffer of {} bytes, less than its header", name, known_bytes));
  Header its;
  std::memcpy(&its, packed, sizeof(its));
  if (std::string_view(its.magic, sizeof(its.magic)) != Header::kMagic)
    return refuse(fmt::format("{} is no buffer that {} made", name, Header::kMaker));
  if (its.checksum != packed_checksum(its)) return refuse(fmt::format("the header of packed {} is damaged", name));
  if (its.version != wanted.version)
    return refuse(fmt::format("{} was packed in format {}, kernels read format {}", name, its.version, wanted.version));
  Header same = wanted;
  same.bytes = its.bytes;
  same.checksum = packed_checksum(same);
  if (std::memcmp(&its, &same, sizeof(its)) != 0) return refuse(fmt::format("{} was packed for {}", name, its.text()));
  if (known_bytes != 0 && known_bytes < its.bytes)
    return refuse(
        fmt::format("{} is a packed buffer of {} bytes, of which {} are there", name, its.bytes, known_bytes));
  return {};
}

}  // namespace tilesmith
