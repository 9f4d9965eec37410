// Names of Composable Kernel's instances, in its grammar, both ways.
//
//   attention  fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1
//   GEMM       gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16
//   conv       grouped_conv_fwd_fp16_nhwgc_2d_compv3_cshuffle_intrawave_128x128x32_2x2x1_32x32x16_vec8_8_8
//
// A name leaves out the architecture and whatever follows from the rest by the tables in specs/ (the wave layout of
// attention backward, for one); a parsed config has what the name says, and complete_amd_attention
// (instances/attention/ck.hpp) completes it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// No name is longer; a buffer of this size holds any.
inline constexpr std::size_t kMaxCkName = 512;

/// Writes the name at `out`, which has room for kMaxCkName bytes, and returns its end. No terminator.
char* write_ck_name(const KernelConfig& config, char* out);

[[nodiscard]] std::string ck_name(const KernelConfig& config);

/// Whether `name` starts as this grammar's names do.
[[nodiscard]] bool is_ck_name(std::string_view name);

/// What the name says; the error quotes the part that could not be read and says what was expected there.
[[nodiscard]] Result<KernelConfig> parse_ck_name(std::string_view name);

}  // namespace tilesmith
