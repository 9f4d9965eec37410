#include "codegen/hip_source.hpp"

#include <fmt/format.h>

#include "codegen/flatten.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

void add_hip_fragment(ConstantsTable& table, const HipSpec& spec, const HipFragment& fragment) {
  table.add("kLanes", spec.lanes_per_wave);
  table.add("kOperand", static_cast<int>(fragment.operand));
  table.add("kOperandWords", fragment.operand_words);
  table.add("kFragment", fragment.side);
  table.add("kGroupsK", fragment.groups_k);
  table.add("kRunOfResults", fragment.run_of_results);
  table.add("kFnuz", fragment.fnuz);
  table.add("kIntegers", fragment.accumulator == DataType::int32);
}

Result<Source> hip_source(const KernelConfig& config, const ConstantsTable& table, const HipFragment& fragment,
                          std::span<const EmbeddedFile> files, std::string_view entry_file) {
  TS_ASSIGN(const std::string text, flatten_includes(files, entry_file));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::hip;
  source.arch = std::string(config.arch.text());
  source.options = {"-std=c++20", "-O3"};
  source.text = table.text() +
                fmt::format("#define TS_ENTRY {}\n#define TS_MATRIX_BUILTIN __builtin_amdgcn_{}\n\n",
                            source.entry_symbol, fragment.builtin) +
                text;
  return source;
}

}  // namespace tilesmith
