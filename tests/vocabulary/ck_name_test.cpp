// Composable Kernel names: malformed ones are refused with what was expected, and nothing crashes the parser.
#include "vocabulary/names/ck.hpp"

#include <gtest/gtest.h>

#include <random>

#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

constexpr const char* kNames[] = {
    "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1",
    "fmha_fwd_fp8bf16_group_h192x128_qr_async_t64x192x64x128x64x192_w32x32x32_pad1111_mask=generic_bias=no_logits=1_"
    "sink=1_qs=blockscale_bpc=2",
    "fmha_batch_prefill_bf16_group_h128_qr_async_t64x192x96x128x32x128_w16x16x16_pad1111_mask=top_left_bias=alibi_lse="
    "1_drop=1_pkv=1_ps=1024_kvl=linear_kvt=vllm_bpc=-1",
    "fmha_bwd_dq_dk_dv_bf16_group_h128_qr_t16x192x128x16x128x16.bn192_w16x16x32_pad1188_mask=no_bias=bias_drop=1_det=1_"
    "dbias=1_drv=dropout_wg16_storerandval_bpc=-1",
    "fmha_fwd_appendkv_bf16_batch_h128_appendkv_t64x64x128x128x32x128_w32x32x16_pad0110_mask=no_bias=no_pkv=1_rope="
    "half_rotated_bpc=-1",
    "gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_True_128x128x128_1x1x1_16x16x16",
    "gemm_fp16_rcrr_mem_default_interwave_True_False_True_False_64x64x64_2x2x1_16x16x16_multid_MultiDAdd_d2",
    "gemm_fp8_rcr_preshufflev2_cshuffle_default_False_False_False_False_128x128x64_1x1x1_16x16x32_preshuffle",
    "gemm_bf16_ccr_compv4_cshuffle_intrawave_False_False_False_False_64x64x64_1x1x1_16x16x16_streamk_tree",
    "gemm_bf16_rrr_compv4_cshuffle_intrawave_False_False_False_False_64x64x64_1x1x1_16x16x16_grouped",
    "grouped_conv_fwd_bf16_nhwgc_2d_compv1_cshuffle_interwave_128x128x64_2x2x1_16x16x32_vec8_8_1",
    "grouped_conv_bwd_weight_fp16_nhwgc_3d_mem_cshuffle_intrawave_64x16x64_2x1x1_16x16x16_vec1_2_2_gm2_2stage_"
    "filter1x1_stride1_pad0_explicit_gemm",
    "grouped_conv_bwd_weight_fp16_nhwgc_2d_basic_async_v1_cshuffle_intrawave_16x32x64_1x2x1_16x16x16_filter1x1_stride1_"
    "pad0_streamk_tree_persistent",
    "grouped_conv_fwd_fp32_nhwgc_2d_compv4_cshuffle_intrawave_64x64x16_1x1x1_32x32x4_vec4_4_4_dsb_filter3x3_large_"
    "tensor_pad101",
    "grouped_conv_fwd_depthwise_fp16_ngchw_2d_14x28_f3_s2x2_p1x1_nb1_sub2x4_vec8_8",
};

TEST(CkName, RoundTrips) {
  for (const char* name : kNames) {
    const auto parsed = parse_ck_name(name);
    ASSERT_TRUE(parsed.has_value()) << name << "\n" << parsed.error().text();
    EXPECT_EQ(ck_name(*parsed), name);
    EXPECT_EQ(kernel_name(*parsed), name);
    EXPECT_TRUE(is_ck_name(name)) << name;
  }
}

TEST(CkName, NativeNamesAreNotTaken) {
  EXPECT_FALSE(is_ck_name("gemm_standard_afp16_bfp16_cfp16_flash_fma_tile64_on_x86_64_v4"));
  EXPECT_FALSE(is_ck_name("attention_fwd_bf16_batch_d128_dv128_flash_fma_tile64_on_x86_64_v4"));
}

TEST(CkName, CutShortOrLengthenedNamesAreRefused) {
  for (const std::string name : kNames) {
    for (std::size_t length = 0; length < name.size(); ++length) {
      const auto parsed = parse_ck_name(std::string_view(name).substr(0, length));
      // A shorter name may be the name of another kernel, but then it is that kernel's whole name.
      if (parsed) {
        EXPECT_EQ(ck_name(*parsed), name.substr(0, length));
      }
    }
    EXPECT_FALSE(parse_ck_name(name + "_x").has_value()) << name;
    EXPECT_FALSE(parse_ck_name(name + std::string(1000, '1')).has_value()) << name;
  }
}

// A changed character gives another kernel's exact name or an error.
TEST(CkName, ChangedCharactersNeverGoUnnoticed) {
  std::mt19937_64 random(21);
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyzFT0123456789_=.-x";
  for (int round = 0; round < 30000; ++round) {
    std::string name = kNames[random() % std::size(kNames)];
    name[random() % name.size()] = kAlphabet[random() % kAlphabet.size()];
    const auto parsed = parse_ck_name(name);
    if (!parsed) {
      EXPECT_FALSE(parsed.error().message.empty());
      continue;
    }
    // Leading zeros and flags spelt out at their default are the only second spellings.
    const auto again = parse_ck_name(ck_name(*parsed));
    ASSERT_TRUE(again.has_value()) << name;
    EXPECT_TRUE(*again == *parsed) << name << "\n" << ck_name(*parsed);
  }
}

TEST(CkName, MasksOfOtherBackendsAreRefused) {
  EXPECT_FALSE(parse_ck_name("fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=causal_"
                             "bias=no_bpc=-1")
                   .has_value());
}

TEST(CkName, ErrorsQuoteThePlace) {
  const auto error = parse_ck_name(
      "fmha_fwd_fp16_batch_h128_qr_asink_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1");
  ASSERT_FALSE(error.has_value());
  EXPECT_NE(error.error().message.find("asink"), std::string::npos) << error.error().message;
}

}  // namespace
}  // namespace tilesmith
