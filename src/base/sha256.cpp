#include "base/sha256.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <charconv>
#include <new>

namespace tilesmith {

Sha256 sha256(std::string_view bytes) {
  Sha256 digest{};
  unsigned int size = 0;
  // Fetched once: OpenSSL would look its providers through each time, which takes as long as a short digest.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  // OpenSSL's digest of memory fails only when it cannot allocate its context.
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, algorithm, nullptr) != 1) throw std::bad_alloc();
  return digest;
}

std::string to_hex(const Sha256& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Key128::hex() const {
  return fmt::format("{:016x}{:016x}", hi, lo);
}

Result<Key128> Key128::parse(std::string_view hex) {
  const auto refuse = [&] {
    return fail(ErrorCode::parse, fmt::format("'{}' is not a 128-bit key", hex), "32 hexadecimal digits");
  };
  if (hex.size() != 32) return refuse();
  Key128 key;
  const char* middle = hex.data() + 16;
  const char* end = hex.data() + 32;
  const auto high = std::from_chars(hex.data(), middle, key.hi, 16);
  const auto low = std::from_chars(middle, end, key.lo, 16);
  if (high.ec != std::errc{} || high.ptr != middle || low.ec != std::errc{} || low.ptr != end) return refuse();
  return key;
}

Key128 key128(std::string_view bytes) {
  const Sha256 digest = sha256(bytes);
  Key128 key;
  for (int i = 0; i < 8; ++i) {
    key.hi = key.hi << 8 | digest[i];
    key.lo = key.lo << 8 | digest[8 + i];
  }
  return key;
}

}  // namespace tilesmith
