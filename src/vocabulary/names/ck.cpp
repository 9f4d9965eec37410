#include "vocabulary/names/ck.hpp"

#include <fmt/format.h>

#include "vocabulary/names/ck_text.hpp"

namespace tilesmith {

std::unexpected<Error> ck::Reader::expected(std::string_view what) const {
  return fail(ErrorCode::parse, fmt::format("kernel name: \"{}\" stands where {} should", rest_.substr(0, 64), what),
              "tilesmith list --names prints valid names");
}

char* write_ck_name(const KernelConfig& config, char* out) {
  switch (config.operation()) {
    case Operation::attention:
      return ck::write_attention_name(config, out);
    case Operation::gemm:
      return ck::write_gemm_name(config, out);
    case Operation::conv:
      return ck::write_conv_name(config, out);
  }
  return out;
}

std::string ck_name(const KernelConfig& config) {
  char buffer[kMaxCkName];
  return {buffer, write_ck_name(config, buffer)};
}

bool is_ck_name(std::string_view name) {
  // Native GEMM names begin alike, but every native name says its architecture.
  if (name.starts_with(ck::kGemmPrefix)) return name.find("_on_") == std::string_view::npos;
  return name.starts_with(ck::kAttentionPrefix) || name.starts_with(ck::kConvPrefix);
}

Result<KernelConfig> parse_ck_name(std::string_view name) {
  if (name.size() > kMaxCkName)
    return fail(ErrorCode::parse, fmt::format("kernel name of {} characters", name.size()),
                fmt::format("at most {}", kMaxCkName));
  if (name.starts_with(ck::kAttentionPrefix)) return ck::parse_attention_name(name);
  if (name.starts_with(ck::kConvPrefix)) return ck::parse_conv_name(name);
  if (name.starts_with(ck::kGemmPrefix)) return ck::parse_gemm_name(name);
  return fail(ErrorCode::parse, fmt::format("\"{}\" is no Composable Kernel name", name.substr(0, 80)),
              "names start with fmha_, gemm_ or grouped_conv_");
}

}  // namespace tilesmith
