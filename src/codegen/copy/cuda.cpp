#include "codegen/copy/cuda.hpp"

#include <fmt/format.h>

#include "codegen/flatten.hpp"

namespace tilesmith {

Result<Source> cuda_pad_rows_source(const CudaSpec& spec) {
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), "cuda/copy/pad_rows.cuh"));
  Source source;
  source.name = "pad_rows";
  source.entry_symbol = "ts_pad_rows";
  source.language = Language::cuda;
  source.arch = std::string(spec.arch.text());
  source.options = {"-std=c++17", "-default-device"};
  source.text = fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace tilesmith
