// What the source of a Composable Kernel instance holds, by version of Composable Kernel (specs/amd/ck/sources.json):
// the order of every template's arguments and of the functions that make a kernel's arguments. A version that moves an
// argument changes this file's data and no code.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/amd/chip.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// `using NAME = ck_tile::TEMPLATE<ARGUMENTS...>;`. An argument in lower case is a word that is written from the
/// instance; others (numbers, true and false, names of earlier aliases, members of Types) stand as they are.
struct CkAlias {
  std::string name;
  std::string class_template;  ///< "pipeline": that of the instance's pipeline; "=": the one argument itself
  std::vector<std::string> arguments;
};

/// Whether an argument is written from the instance: "pad_s" is, "Types::Q", "ck_tile::tuple<>", "256", "true" and
/// "kConstant" are not.
[[nodiscard]] bool is_ck_word(std::string_view argument);

/// A pipeline's class: its arguments follow those of the alias "pipeline".
struct CkPipelineClass {
  std::string name;
  std::vector<std::string> arguments;
};

/// How one family's sources are written for some versions.
struct CkUnit {
  std::string family;
  std::vector<std::string> versions;
  std::vector<std::pair<Pipeline, CkPipelineClass>> pipelines;
  std::vector<std::pair<Pipeline, std::array<std::uint8_t, 4>>>
      padded;  ///< pads without which a class does not compile
  std::vector<CkAlias> aliases;
  std::string make;  ///< attention: the kernel's function that makes its arguments
  std::array<std::vector<std::string>, 2> make_arguments;  ///< attention: by SequenceMode
  std::array<std::vector<std::string>, 2> grid_arguments;  ///< attention: by SequenceMode
  std::vector<int> splits_log2;  ///< combine: one kernel for each of these logarithms of split counts

  [[nodiscard]] const CkPipelineClass* class_of(Pipeline pipeline) const;
};

struct CkSourcesSpec {
  struct Version {
    std::string name;  ///< the month of a state of Composable Kernel, for example 2026-05
    std::string about;
  };
  struct Launch {
    std::vector<std::string> versions;
    std::vector<std::string> arguments;  ///< of ck_tile::make_kernel
  };
  struct Flags {
    std::vector<std::string> all, cdna, rdna, backward;
  };

  std::vector<Version> versions;
  std::string default_version;
  std::vector<std::pair<Operation, std::vector<std::string>>> headers;
  std::vector<Launch> launches;
  std::vector<std::pair<std::string, std::string>> arch_tags;  ///< by architecture
  Flags flags;
  std::vector<std::pair<Operation, std::vector<CkUnit>>> units;

  /// The unit of a family for a version and a pipeline; null when the version has none.
  [[nodiscard]] const CkUnit* unit(Operation operation, std::string_view family, std::string_view version,
                                   Pipeline pipeline) const;
  [[nodiscard]] const Launch* launch(std::string_view version) const;
  [[nodiscard]] const std::vector<std::string>* headers_of(Operation operation) const;
  /// The type that makes a kernel's symbol distinct by architecture; null for a chip that has none.
  [[nodiscard]] const std::string* arch_tag(std::string_view arch) const;
  /// Error: invalid_argument, with the names that are known.
  [[nodiscard]] Result<const Version*> version(std::string_view name) const;
};

[[nodiscard]] Result<CkSourcesSpec> parse_ck_sources_spec(std::string_view file, std::string_view text);
/// The spec in use, loaded once; the error of the load is kept.
[[nodiscard]] const Result<CkSourcesSpec>& ck_sources_spec();

}  // namespace tilesmith
