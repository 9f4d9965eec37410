// Sources of Composable Kernel instances: one translation unit against CK Tile's headers for each instance. What a unit
// holds and in which order is data (spec/amd/ck_sources.hpp); an operation brings the words that the data's arguments
// are written with.
//
//   TS_ASSIGN(CkWriter writer, CkWriter::create(chip, "2026-05"));
//   TS_TRY(writer.write(config, text));
//
// A writer keeps what it has worked out for a family, so that a list of millions is written at the speed of copying.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "spec/amd/chip.hpp"
#include "spec/amd/ck_sources.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

class CkWriter {
 public:
  /// An empty version is the default one of specs/amd/ck/sources.json.
  [[nodiscard]] static Result<CkWriter> create(const AmdChip& chip, std::string_view version = {});

  /// Replaces `text` by the instance's translation unit. Error: unsupported, with the rule that refuses the instance,
  /// or with what this version of Composable Kernel does not have.
  [[nodiscard]] Status write(const KernelConfig& config, std::string& text) { return write(config, text, nullptr); }
  /// The same, and what the text is called.
  struct Written {
    std::string name;  ///< Composable Kernel's
    std::string key;   ///< 32 hexadecimal digits
  };
  [[nodiscard]] Status write(const KernelConfig& config, std::string& text, Written* written);

  /// What a dispatch header names: the header of tilesmith_ck that it includes, and the structure of an instance.
  struct DispatchNames {
    std::string_view header, instance;
  };
  [[nodiscard]] static DispatchNames dispatch_names(Operation operation);
  /// The function that the unit of an instance defines: tilesmith_ck::k_<key>().
  [[nodiscard]] static std::string symbol(const KernelConfig& config);
  /// The compiler's options for all instances of one operation, and those that this one needs besides.
  [[nodiscard]] std::vector<std::string> options() const;
  [[nodiscard]] std::vector<std::string> options_of(const KernelConfig& config) const;
  [[nodiscard]] const std::string& version() const { return version_; }

  CkWriter(CkWriter&&) noexcept;
  CkWriter& operator=(CkWriter&&) noexcept;
  ~CkWriter();

 private:
  struct Plan;
  CkWriter(const AmdChip& chip, const CkSourcesSpec& spec, std::string version);
  [[nodiscard]] Result<const Plan*> plan_for(const KernelConfig& config, std::string_view family);

  const AmdChip* chip_;
  const CkSourcesSpec* spec_;
  std::string version_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

/// The headers that the units include, as files of a folder tilesmith_ck.
[[nodiscard]] std::span<const EmbeddedFile> ck_support_headers();

}  // namespace tilesmith
