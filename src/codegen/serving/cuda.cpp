#include "codegen/serving/cuda.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "codegen/constants_table.hpp"
#include "codegen/flatten.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

ConstantsTable table_of(DataType type) {
  ConstantsTable table;
  table.add("kFp32", type == DataType::fp32);
  table.add("kBf16", type == DataType::bf16);
  return table;
}

Result<Source> source_of(std::string name, std::string_view file, const ConstantsTable& table, const CudaSpec& spec) {
  TS_ASSIGN(const std::string text, flatten_includes(embedded_kernels(), file));
  Source source;
  source.name = std::move(name);
  source.entry_symbol = "ts_" + source.name;
  source.language = Language::cuda;
  source.arch = std::string(spec.arch.text());
  source.options = {"-std=c++17", "-default-device"};
  source.text = table.text() + fmt::format("#define TS_ENTRY {}\n\n", source.entry_symbol) + text;
  return source;
}

}  // namespace

Result<Source> cuda_merge_states_source(DataType type, const CudaSpec& spec) {
  return source_of(fmt::format("merge_states_{}", name_of(type)), "cuda/serving/merge_states.cuh", table_of(type),
                   spec);
}

Result<Source> cuda_append_kv_source(DataType type, KvElements cache, const CudaSpec& spec) {
  const bool fp8 = cache == KvElements::fp8, int8 = cache == KvElements::int8;
  // PTX ISA 9.0, cvt: e4m3x2 from f32 needs sm_89.
  if (fp8 && spec.major * 10 + spec.minor < 89)
    return fail(ErrorCode::unsupported, fmt::format("append_kv to a cache of fp8 on {}", spec.arch.text()),
                "a cache of int8, or a device of sm_89 or newer");
  ConstantsTable table = table_of(type);
  table.add("kCacheFp8", fp8);
  table.add("kCacheInt8", int8);
  return source_of(fmt::format("append_kv_{}{}", name_of(type),
                               fp8    ? "_to_fp8"
                               : int8 ? "_to_int8"
                                      : ""),
                   "cuda/serving/append_kv.cuh", table, spec);
}

}  // namespace tilesmith
