// One entry of the store: what identifies it, and its directory's contents, written once and checked whenever they are
// read.
//
//   binary          the compiled kernel (absent when compiling failed)
//   source          the text it was compiled from
//   log             what the compiler said
//   manifest.json   the key's text, the status, the size and SHA-256 of each file above, and of a CUDA kernel what it
//                   takes of its device
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "codegen/source.hpp"
#include "jit/resource_report.hpp"

namespace tilesmith {

/// The identity of an entry: canonical JSON of everything that decides the binary's bytes, and its digest, which names
/// the directory.
struct EntryKey {
  std::string text;
  std::string digest;  ///< 64 hexadecimal digits
};

/// `toolchain` is Toolchain::identity(). Refuses an entry symbol that is no identifier and options that are no UTF-8.
[[nodiscard]] Result<EntryKey> entry_key(const Source& source, std::string_view toolchain);

/// A binary in the store, or in a private directory when the store could not take it. Its bytes were those of the
/// manifest when it was handed out.
struct Binary {
  std::filesystem::path path;  ///< the file: what a loader of shared objects needs
  std::string entry_symbol;
  std::uint64_t bytes = 0;
  Sha256 digest{};
  bool from_store = false;                    ///< found, not compiled by this call
  std::optional<ResourceReport> resources{};  ///< what the compiler said about it; CUDA only

  /// The bytes, checked again.
  [[nodiscard]] Result<std::string> read() const;
};

/// How a compile ended, as it is kept.
struct EntryContent {
  std::string_view binary;  ///< empty when compiling failed
  std::string_view log;
  std::optional<Error> failure{};       ///< why, when it failed
  std::filesystem::path same_binary{};  ///< a file that holds these very bytes already, to be linked instead of written
                                        ///< again; may be empty
  std::optional<ResourceReport> resources{};
};

/// Fills an empty private directory.
[[nodiscard]] Status write_entry(const std::filesystem::path& directory, const EntryKey& key, const Source& source,
                                 const EntryContent& content);

struct StoredEntry {
  std::string name;  ///< of the instance that was compiled first
  std::string arch;
  Binary binary;                                      ///< when `failure` is empty
  std::optional<Error> failure;                       ///< why compiling failed
  std::chrono::system_clock::time_point failed_at{};  ///< when
};

/// Reads and checks everything. Errors: `not_found` when there is no such directory, `unsupported` when another version
/// of the program wrote the entry, `corrupt` when anything in it is not as it was written. With a key, the entry must
/// be that key's; without, that of the directory's name.
[[nodiscard]] Result<StoredEntry> read_entry(const std::filesystem::path& directory, const EntryKey* key);

/// Whether another version of the program wrote the entry. Reads the manifest alone.
[[nodiscard]] bool is_of_other_version(const std::filesystem::path& directory);

}  // namespace tilesmith
