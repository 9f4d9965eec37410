// A tuning file: the recipe to run for each problem that was tuned, on each class of devices. `tilesmith db publish`
// writes it, dispatchers read it (DispatcherOptions::tuning, TILESMITH_TUNING). It holds choices, not timings: every
// process that reads the same file chooses alike, on every rank and day.
//
// JSON: {"tilesmith_tuning": 1, "keys": "v2", "digest": "<SHA-256 of the choices>", "choices": [{...}]}. `keys` is the
// version of the recipes' keys (kCanonicalVersion): keys of another version name no recipe of this program.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "choose/measured.hpp"

namespace tilesmith {

/// What tuning chose for one problem on one class of devices.
struct TunedChoice {
  std::string device_class;
  std::string problem;  ///< identity_of(problem)
  std::string line;     ///< to_line(problem), for people
  Key128 recipe;        ///< key_of(recipe)
  std::string name;     ///< recipe_name, for people
  double seconds = 0;   ///< of a call, as measured
  double gain = 1;      ///< the time of what was chosen before, over this one's, measured in turns with it
  bool is_confirmed =
      false;  ///< two blocks of turns agree that it is better; else nothing was, and it is what was chosen before

  friend bool operator==(const TunedChoice&, const TunedChoice&) = default;
};

struct TuningFile {
  std::vector<TunedChoice> choices;  ///< by device class, then problem; each pair once

  /// The digest of the choices: 64 hexadecimal digits. Equal for files that choose alike.
  [[nodiscard]] std::string digest() const;
  [[nodiscard]] std::string to_text() const;

  /// Errors: corrupt, for choices that are not those of the digest; parse, which names `origin` and what is wrong: no
  /// JSON, another version, a field that is missing or of the wrong kind, a digest that does not match, choices out of
  /// order.
  [[nodiscard]] static Result<TuningFile> parse(std::string_view origin, std::string_view text);
  /// Errors: those of parse; io.
  [[nodiscard]] static Result<TuningFile> read(const std::filesystem::path& path);

  /// The choices for one class of devices.
  [[nodiscard]] MeasuredTable table_for(std::string_view device_class) const;
};

}  // namespace tilesmith
