// The tables of PyTorch Inductor's template heuristics as data (data/inductor_tables.json, which names its source): for
// each template and device, the configs that Inductor times.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// One config. A field that its table does not have is 0.
struct InductorConfig {
  int block_m = 0, block_n = 0, block_k = 0;
  int stages = 0, warps = 0;
  int group_m = 0;                                            ///< rows of tiles that are walked together
  int matrix_instr_nonkdim = 0, waves_per_eu = 0, kpack = 0;  ///< ROCm

  friend bool operator==(const InductorConfig&, const InductorConfig&) = default;
};

struct InductorTable {
  std::string id, name;       ///< "rocm_mm", "mm": the template
  std::string device, space;  ///< "base", "rocm"; "default", "exhaustive", "autotune", ...
  std::size_t count = 0;      ///< of rows, as the file says
  std::vector<InductorConfig> rows;
};

/// What the tables of defaults of flex attention are asked by.
struct FlexKey {
  std::string_view device = "base";  ///< "base", "cuda" or "rocm"
  DataType type = DataType::bf16;    ///< fp32, fp16 or bf16
  int head_dim = 0;
  int major = 0, minor = 0;  ///< the device's compute capability
};

class InductorTables {
 public:
  /// Errors: parse, with what is wrong: a range or condition that this program does not know, a table whose rows are
  /// not as many as it says.
  [[nodiscard]] static Result<InductorTables> parse(std::string_view origin, std::string_view text);
  /// The file that is compiled in.
  [[nodiscard]] static const InductorTables& built_in();

  [[nodiscard]] const std::vector<InductorTable>& all() const { return tables_; }
  /// The rows of a table by its id; empty where there is none.
  [[nodiscard]] const std::vector<InductorConfig>& rows(std::string_view id) const;
  /// The default config of a template of flex attention ("flex_attention_fwd"): the first rule that holds.
  [[nodiscard]] std::optional<InductorConfig> flex_default(std::string_view name, const FlexKey& key) const;

 private:
  struct Rule {
    std::string when;
    std::optional<InductorConfig> config;  ///< absent: that of the keyed table
  };
  struct Rules {
    std::string name, device;
    std::vector<Rule> rules;
  };
  struct Keyed {
    DataType type{};
    int head_dim = 0;
    InductorConfig config;
  };

  [[nodiscard]] const InductorConfig* keyed(std::string_view id, const FlexKey& key) const;
  /// Whether the terms of a condition hold; `table` is set to the keyed table that one of them names.
  [[nodiscard]] Result<bool> holds(std::string_view when, const FlexKey& key, std::string_view& table) const;

  std::vector<InductorTable> tables_;
  std::map<std::string, std::vector<Keyed>, std::less<>> keyed_;
  std::vector<Rules> rules_;
};

}  // namespace tilesmith
