#include "codegen/copy/cuda.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "codegen/flatten.hpp"

namespace tilesmith {

namespace {

Result<Source> copy_source(const CudaSpec& spec, std::string_view name) {
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), fmt::format("cuda/copy/{}.cuh", name)));
  Source source;
  source.name = name;
  source.entry_symbol = fmt::format("ts_{}", name);
  source.language = Language::cuda;
  source.arch = std::string(spec.arch.text());
  source.options = {"-std=c++17", "-default-device"};
  source.text = fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace

Result<Source> cuda_pad_rows_source(const CudaSpec& spec) {
  return copy_source(spec, "pad_rows");
}

Result<Source> cuda_copy_rows_source(const CudaSpec& spec) {
  return copy_source(spec, "copy_rows");
}

}  // namespace tilesmith
