// Sources of Composable Kernel instances: golden texts, the same bytes each time, refusals with their reasons, and
// compiles against a stand-in for CK Tile's headers (ck_mock/README.md says what that proves).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "codegen/ck.hpp"
#include "instances/attention/ck.hpp"
#include "instances/conv/ck.hpp"
#include "instances/gemm/ck.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

const AmdChip& chip(std::string_view arch) {
  return **find_amd_chip(arch);
}

CkWriter writer(std::string_view arch, std::string_view version = {}) {
  return CkWriter::create(chip(arch), version).value();
}

KernelConfig instance(std::string_view arch, std::string_view name) {
  KernelConfig config = parse_ck_name(name).value();
  config.arch = chip(arch).arch;
  if (config.operation() == Operation::attention) complete_amd_attention(*amd_attention_spec(), config);
  return config;
}

std::string text_of(std::string_view arch, std::string_view name, std::string_view version = {}) {
  std::string text;
  const Status status = writer(arch, version).write(instance(arch, name), text);
  return status ? text : "error: " + status.error().text();
}

std::string_view line_with(std::string_view text, std::string_view part) {
  const std::size_t at = text.find(part);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

/// Every n-th instance of a variant, and the first of each family and pipeline.
std::vector<KernelConfig> sample(std::string_view arch, AttentionVariant variant, std::size_t step) {
  std::vector<KernelConfig> out;
  std::set<std::pair<AttentionFamily, Pipeline>> met;
  std::size_t i = 0;
  enumerate_amd_attention({.chip = chip(arch), .spec = *amd_attention_spec()}, variant,
                          [&](const KernelConfig& config) {
                            const bool first = met.emplace(config.attention().family, config.algorithm.pipeline).second;
                            if (first || i++ % step == 0) out.push_back(config);
                            return true;
                          });
  return out;
}

constexpr std::string_view kForward =
    "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1";

TEST(CkSource, GoldenTextOfEachFamily) {
  constexpr std::pair<std::string_view, std::string_view> kGolden[] = {
      {"fwd", kForward},
      {"fwd_v3",
       "fmha_fwd_bf16_group_h128_qr_async_trload_v3_t256x32x32x128x32x128_w32x32x16_pad1100_mask=top_left_bias=no_bpc=-"
       "1"},
      {"fwd_splitkv",
       "fmha_fwd_splitkv_fp16_batch_h128_qr_t64x64x32x128x32x128_w16x16x16_pad1111_mask=no_bias=alibi_lse=1_pkv=1_bpc=-"
       "1"},
      {"fwd_splitkv_combine",
       "fmha_fwd_splitkv_combine_fp16_batch_h128_splitkv_combine_t32x128x32x32x32x128_w32x32x16_pad0110_mask=no_bias="
       "no_"
       "lse=1_bpc=-1"},
      {"fwd_pagedkv",
       "fmha_fwd_pagedkv_fp16_group_h128_qr_pagedkv_t64x64x32x128x32x128_w16x16x16_pad1111_mask=generic_bias=no_sink=1_"
       "pkv=1_bpc=-1"},
      {"fwd_appendkv",
       "fmha_fwd_appendkv_bf16_batch_h128_appendkv_t64x64x128x128x32x128_w32x32x16_pad1111_mask=no_bias=no_pkv=1_"
       "rope=interleaved_bpc=-1"},
      {"batch_prefill",
       "fmha_batch_prefill_bf16_group_h128_qr_async_t64x64x32x128x32x128_w16x16x16_pad1111_mask=no_bias=no_lse=1_"
       "logits=1_pkv=1_ps=16_kvl=linear_kvt=vllm_bpc=-1"},
      {"bwd_dot_do_o",
       "fmha_bwd_dot_do_o_bf16_batch_h64_qr_t64x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1"},
      {"bwd_dq_dk_dv",
       "fmha_bwd_dq_dk_dv_bf16_batch_h32_qr_t32x128x32x32x32x32_w16x16x32_pad1180_mask=no_bias=bias_det=1_dbias=1_bpc=-"
       "1"},
      {"bwd_convert_dq",
       "fmha_bwd_convert_dq_fp16_group_h256_qr_t64x128x32x128x32x128_w32x32x16_pad1101_mask=no_bias=no_det=1_bpc=-1"},
      {"gemm_standard", "gemm_fp16_rcr_compv4_cshuffle_intrawave_True_True_True_False_128x128x64_2x2x1_32x32x16"},
      {"gemm_preshuffle",
       "gemm_bf16_rcr_preshufflev2_cshuffle_default_False_False_False_True_128x128x64_1x4x1_16x16x32_preshuffle"},
      {"gemm_multi_d",
       "gemm_fp16_rcrr_mem_default_interwave_False_False_False_False_64x64x64_2x1x1_32x32x16_multid_MultiDAdd_d2"},
      {"gemm_stream_k",
       "gemm_bf16_rcr_compv3_cshuffle_intrawave_False_False_False_True_128x128x64_2x2x1_32x32x16_streamk_tree"},
      {"gemm_grouped",
       "gemm_fp16_rcr_compv4_cshuffle_intrawave_False_False_False_True_128x128x64_2x2x1_32x32x16_grouped"},
      {"conv_fwd",
       "grouped_conv_fwd_fp16_nhwgc_2d_compv3_cshuffle_intrawave_64x64x64_2x2x1_16x16x32_vec8_8_1_filter1x1_stride1_"
       "pad0"},
      {"conv_bwd_data",
       "grouped_conv_bwd_data_fp16_nhwgc_3d_compv1_cshuffle_intrawave_16x64x32_1x1x1_16x16x32_vec8_1_1"},
      {"conv_bwd_weight",
       "grouped_conv_bwd_weight_fp16_nhwgc_2d_mem_cshuffle_intrawave_16x16x32_1x1x1_16x16x32_vec1_1_2"},
      {"conv_bwd_weight_wavelet",
       "grouped_conv_bwd_weight_fp16_nhwgc_2d_wavelet_cshuffle_intrawave_16x64x64_1x2x1_16x16x32_vec1_8_4"},
      {"conv_bwd_weight_two_stage",
       "grouped_conv_bwd_weight_fp16_nhwgc_2d_compv6_cshuffle_intrawave_16x16x32_1x1x1_16x16x32_vec1_1_1_2stage"},
      {"conv_bwd_weight_stream_k",
       "grouped_conv_bwd_weight_fp16_nhwgc_2d_mem_cshuffle_intrawave_16x16x32_1x1x1_16x16x16_vec1_1_1_streamk_tree_"
       "persistent"},
      {"conv_depthwise", "grouped_conv_fwd_depthwise_fp16_ngchw_2d_16x16_f3_s1x1_p1x1_nb1_sub2x2_vec2_2"},
  };
  const std::filesystem::path folder = std::filesystem::path(TILESMITH_TEST_DIR) / "golden/ck";
  for (const auto& [file, name] : kGolden) {
    const std::string text = text_of("gfx950", name);
    EXPECT_FALSE(text.starts_with("error")) << text;
    const auto path = folder / fmt::format("{}.txt", file);
    if (std::getenv("TILESMITH_WRITE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file_atomic(path, text).has_value());
    }
    EXPECT_EQ(text, read_file(path).value_or("")) << path << "; TILESMITH_WRITE_GOLDEN=1 writes it";
    EXPECT_EQ(text, text_of("gfx950", name)) << "the same bytes each time";
  }
}

TEST(CkSource, EachTraitChangesItsOwnArgument) {
  const KernelConfig plain = instance("gfx950", kForward);
  const auto line = [](const KernelConfig& config, std::string_view word) {
    std::string text;
    EXPECT_TRUE(writer("gfx950").write(config, text).has_value());
    return std::string(line_with(text, fmt::format("/* {} */", word)));
  };
  const auto with = [&](const auto& change) {
    KernelConfig config = plain;
    change(config.attention(), config.algorithm);
    return config;
  };
  const std::vector<std::tuple<std::string_view, KernelConfig, std::string_view>> changes = {
      {"lse", with([](auto& s, auto&) { s.lse = true; }), "true,"},
      {"dropout", with([](auto& s, auto&) { s.dropout = true; }), "true,"},
      {"soft_cap", with([](auto& s, auto&) { s.soft_cap = true; }), "true,"},
      {"sink", with([](auto& s, auto&) { s.sink = true; }), "true>;"},
      {"skip_min_seqlen_q", with([](auto& s, auto&) { s.skip_min_seqlen_q = true; }), "true,"},
      {"bias", with([](auto& s, auto&) { s.bias = BiasKind::alibi; }), "ALIBI,"},
      {"group_mode", with([](auto& s, auto&) { s.mode = SequenceMode::group; }), "true,"},
      {"mask_simplified", with([](auto& s, auto&) { s.mask = MaskKind::top_left; }), "<true>;"},
      {"pad_s", with([](auto&, auto& a) { a.pad[0] = 0; }), "false,"},
      {"pad_sk", with([](auto&, auto& a) { a.pad[1] = 0; }), "false,"},
      {"pad_d", with([](auto&, auto& a) { a.pad[2] = 0; }), "false,"},
      {"block_per_cu", with([](auto&, auto& a) { a.block_per_cu = 2; }), " 2,"},
  };
  for (const auto& [word, changed, end] : changes) {
    EXPECT_NE(line(plain, word), line(changed, word)) << word;
    EXPECT_TRUE(line(changed, word).ends_with(end)) << line(changed, word);
    for (const auto& [other, config, ignored] : changes)
      if (other != word) {
        EXPECT_EQ(line(plain, other), line(changed, other)) << word << " changes " << other;
      }
  }
}

TEST(CkSource, TransposedPipelinesAreNotEmpty) {
  for (const KernelConfig& config : sample("gfx950", AttentionVariant::fwd, 100000)) {
    const Pipeline pipeline = config.algorithm.pipeline;
    std::string text;
    if (!writer("gfx950").write(config, text)) continue;
    const bool transposed = pipeline == Pipeline::qr_async_trload || pipeline == Pipeline::qr_async_trload_v3;
    EXPECT_EQ(line_with(text, "/* use_trload */").ends_with("true,"), transposed) << ck_name(config);
  }
}

TEST(CkSource, RefusesWhatCannotCompileAndSaysWhy) {
  const auto error = [](std::string_view arch, std::string_view name, std::string_view version = {}) {
    return text_of(arch, name, version);
  };
  // one slice of the head dim
  EXPECT_NE(
      error("gfx950", "fmha_fwd_fp16_batch_h256_qr_t64x64x256x256x32x256_w32x32x16_pad0000_mask=no_bias=no_bpc=-1")
          .find("two_slices_of_k0"),
      std::string::npos);
  EXPECT_NE(error("gfx1100", kForward).find("copies_to_local_memory"), std::string::npos);
  // a slice of keys is three elements for each of 512 lanes; one of values is no whole number for 384
  EXPECT_NE(error("gfx942",
                  "fmha_fwd_splitkv_bf16_batch_h160_qr_t128x96x16x160x32x256_w16x16x16_pad1100_mask=no_bias=no_lse=1_"
                  "logits=1_bpc=-1")
                .find("block_loads_keys: n0 96, k0 16, 512 lanes"),
            std::string::npos);
  EXPECT_NE(error("gfx942",
                  "fmha_fwd_fp16_batch_h32_qr_async_t192x384x16x32x32x32_w32x32x16_pad1111_mask=generic_bias=no_lse=1_"
                  "logits=1_bpc=-1")
                .find("block_loads_values: n1 32, k1 32, 384 lanes"),
            std::string::npos);
  EXPECT_NE(error("gfx942",
                  "fmha_batch_prefill_bf16_group_h160_qr_async_t16x256x32x160x32x256_w16x16x16_pad1111_mask=no_bias="
                  "alibi_lse=1_drop=1_pkv=1_kvl=linear_bpc=-1")
                .find("block_loads_values"),
            std::string::npos);
  EXPECT_NE(error("gfx950",
                  "fmha_fwd_bf16_batch_h128_qr_async_trload_v3_t256x32x32x128x32x128_w16x16x32_pad1100_mask=no_bias=no_"
                  "bpc=-1")
                .find("v3_has_two_groups_of_waves"),
            std::string::npos);
  EXPECT_NE(error("gfx950", "gemm_pk_fp4_rcr_mem_cshuffle_intrawave_False_False_False_False_64x64x128_1x1x1_16x16x128")
                .find("rule type_is_written: pk_fp4"),
            std::string::npos);
  // what a version lacks
  const std::string_view capped =
      "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_logits=1_bpc=-1";
  EXPECT_NE(error("gfx950", capped, "2024-10").find("no soft cap"), std::string::npos);
  EXPECT_EQ(error("gfx950", capped).find("error"), std::string::npos);
  EXPECT_NE(error("gfx950",
                  "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad0000_mask=no_bias=no_bpc=-1",
                  "2025-02")
                .find("with padding only"),
            std::string::npos);
  const auto unknown = CkWriter::create(chip("gfx950"), "2026-06");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
}

TEST(CkSource, SoftCapHasTheFastExponentialOnEveryChip) {
  const KernelConfig capped =
      instance("gfx1201",
               "fmha_fwd_fp16_batch_h128_qr_t128x128x32x128x32x128_w16x16x16_pad1111_mask=no_bias=no_logits=1_bpc=-1");
  KernelConfig plain = capped;
  plain.attention().soft_cap = false;
  const CkWriter rdna = writer("gfx1201");
  EXPECT_EQ(rdna.options_of(capped).front(), "-DCK_TILE_FMHA_FWD_FAST_EXP2=1");
  EXPECT_EQ(rdna.options_of(plain).front(), "-DCK_TILE_FMHA_FWD_FAST_EXP2=0");
}

/// What the stand-in's members must say for an instance: a wrong order of flags compiles and differs here.
std::string assertions(const KernelConfig& config) {
  const AttentionSignature& s = config.attention();
  std::string out = fmt::format("namespace tilesmith_ck::of_{} {{\n", key_of(config).hex());
  const bool combine = s.family == AttentionFamily::fwd_splitkv_combine;
  if (combine)
    out += "using T = Kernels<3>::Traits;\nusing P = Kernels<3>::Problem;\n";
  else
    out += "using T = Traits;\nusing P = Problem;\n";
  const auto same = [&](std::string_view member, std::string_view field) {
    out += fmt::format("static_assert(static_cast<int>({}) == static_cast<int>(kRecord.{}));\n", member, field);
  };
  same("P::group", "group");
  const bool backward = s.family >= AttentionFamily::bwd_dot_do_o;
  if (s.family == AttentionFamily::bwd_dq_dk_dv) {
    for (const std::string_view field : {"pad_d", "pad_dv", "bias", "dbias"}) same(fmt::format("T::{}", field), field);
    for (const std::string_view field : {"dropout", "stores_rand_val"}) same(fmt::format("Dropout::{}", field), field);
    same("P::deterministic", "deterministic");
    for (const std::string_view field : {"m0", "n0", "hdim_q", "hdim_v", "max_seqlen_q"})
      same(fmt::format("Shape::{}", field), field);
  } else if (s.family == AttentionFamily::bwd_convert_dq) {
    same("T::pad_s", "pad_s");
    same("T::pad_d", "pad_d");
    same("P::deterministic", "deterministic");
    same("P::hdim_q", "hdim_q");
  } else {
    same("T::pad_s", "pad_s");
    same("T::pad_dv", "pad_dv");
  }
  if (combine || s.family == AttentionFamily::bwd_dot_do_o) same("P::hdim_v", "hdim_v");
  if (combine) same("T::lse", "lse");
  if (s.family == AttentionFamily::fwd_appendkv) {
    same("P::rope", "rope");
    same("P::paged_kv", "paged_kv");
  }
  if (!backward && !combine && s.family != AttentionFamily::fwd_appendkv) {
    for (const std::string_view field : {"pad_sk", "pad_d", "soft_cap", "bias", "lse", "sink"})
      same(fmt::format("T::{}", field), field);
    for (const std::string_view field : {"m0", "n0", "n1", "k0max"}) same(fmt::format("Shape::{}", field), field);
    out += "static_assert(Mask::mask == (kRecord.mask != tilesmith_ck::MaskKind::no));\n";
  }
  if (s.family == AttentionFamily::fwd || s.family == AttentionFamily::batch_prefill)
    for (const std::string_view field : {"dropout", "qscale", "skip_min_seqlen_q"})
      same(fmt::format("T::{}", field), field);
  if (s.family == AttentionFamily::fwd_splitkv || s.family == AttentionFamily::fwd_pagedkv)
    same("T::paged_kv", "paged_kv");
  if (s.family == AttentionFamily::batch_prefill) {
    same("T::page_size", "page_size");
    out +=
        "static_assert((T::kv_layout == ck_tile::BlockAttentionKVCacheMemoryLayoutEnum::LINEAR_LAYOUT) == "
        "(kRecord.kv_layout == KvLayout::linear));\n"
        "static_assert((T::kv_lookup == ck_tile::BlockAttentionKVCacheLookupTableEnum::VLLM_BLOCK_TABLE_2D) == "
        "(kRecord.kv_lookup == KvLookup::vllm));\n";
  }
  return out + "}\n";
}

std::string compiler() {
  const char* named = std::getenv("CXX");
  return find_program(named != nullptr && *named != '\0' ? named : "c++").value().string();
}

class CkSourceCompiles : public testing::TestWithParam<std::pair<std::string_view, std::string_view>> {};

TEST_P(CkSourceCompiles, AgainstTheStandIn) {
  const auto& [arch, version] = GetParam();
  CkWriter units = writer(arch, version);
  auto folder = TemporaryDirectory::create("ck-source-").value();
  std::filesystem::create_directories(folder.path() / "tilesmith_ck");
  for (const EmbeddedFile& header : ck_support_headers())
    ASSERT_TRUE(write_file_atomic(folder.path() / "tilesmith_ck" / header.path, header.text).has_value());
  // Many instances in one file: a compile costs more than an instance.
  std::string all, text;
  std::map<AttentionFamily, int> written;
  for (const auto& entry : EnumTable<AttentionVariant>::kNames)
    for (const KernelConfig& config : sample(arch, entry.value, 40009)) {
      if (!units.write(config, text)) continue;
      all += text;
      if (version == "2026-05") all += assertions(config);
      ++written[config.attention().family];
    }
  EXPECT_GE(written.size(), version < "2026" ? 6u : 7u);
  const auto source = folder.path() / "all.cpp";
  ASSERT_TRUE(write_file_atomic(source, all).has_value());
  std::string year(version);
  year.erase(4, 1);
  const auto run =
      run_process({.arguments = {compiler(), "-std=c++17", "-fsyntax-only", "-DCK_TILE_FMHA_FWD_FAST_EXP2=1",
                                 fmt::format("-DTILESMITH_CK_VERSION={}", year), "-I", folder.path().string(), "-I",
                                 std::string(TILESMITH_TEST_DIR) + "/ck_mock", source.string()},
                   .time_limit = std::chrono::minutes(10)});
  ASSERT_TRUE(run.has_value()) << run.error().text();
  EXPECT_TRUE(run->succeeded()) << run->describe() << "\n" << run->errors.substr(0, 4000);
}

std::string gemm_assertions(const KernelConfig& config) {
  std::string out = fmt::format("namespace tilesmith_ck::of_{} {{\n", key_of(config).hex());
  for (const std::string_view field :
       {"pad_m", "pad_n", "pad_k", "persistent", "preshuffle", "a_by_rows", "b_by_rows", "c_by_rows"})
    out += fmt::format("static_assert(Traits::{0} == kRecord.{0});\n", field);
  const GemmFamily family = std::get<GemmSignature>(config.signature).family;
  if (family == GemmFamily::stream_k)
    out +=
        "static_assert((Partitioner::strategy == ck_tile::StreamKReductionStrategy::Atomic) == (kRecord.stream_k == "
        "StreamK::atomic));\n"
        "static_assert((Partitioner::strategy == ck_tile::StreamKReductionStrategy::Tree) == (kRecord.stream_k == "
        "StreamK::tree));\nstatic_assert(kInstance.workspace != nullptr);\n";
  if (family == GemmFamily::grouped_gemm) out += "static_assert(kRecord.grouped && kInstance.workspace != nullptr);\n";
  return out + "static_assert(Epilogue::num_d == kRecord.num_d);\n}\n";
}

std::string conv_assertions(const KernelConfig& config) {
  std::string out = fmt::format("namespace tilesmith_ck::of_{} {{\n", key_of(config).hex());
  const auto& s = std::get<ConvSignature>(config.signature);
  if (s.depthwise) {
    out +=
        "static_assert(Traits::filter == kRecord.filter_size && Traits::stride_h == kRecord.stride_h && "
        "Traits::stride_w == kRecord.stride_w && Traits::images == kRecord.images);\n";
  } else {
    out +=
        "static_assert(Conv::dims == kRecord.dims && Conv::groups_merged == kRecord.groups_merged);\n"
        "static_assert(static_cast<int>(Conv::specialization) == static_cast<int>(kRecord.filter));\n"
        "static_assert((kInstance.workspace != nullptr) == (kRecord.two_stage || kRecord.stream_k));\n"
        "static_assert(std::is_same_v<EpilogueProblem::Output, std::conditional_t<kRecord.two_stage, float, "
        "Element>>);\n";
  }
  return out + "}\n";
}

/// Compiles texts as one file against the stand-in for 2026-05.
void expect_compiles(const std::string& all) {
  auto folder = TemporaryDirectory::create("ck-source-").value();
  std::filesystem::create_directories(folder.path() / "tilesmith_ck");
  for (const EmbeddedFile& header : ck_support_headers())
    ASSERT_TRUE(write_file_atomic(folder.path() / "tilesmith_ck" / header.path, header.text).has_value());
  const auto source = folder.path() / "all.cpp";
  ASSERT_TRUE(write_file_atomic(source, all).has_value());
  const auto run = run_process(
      {.arguments = {compiler(), "-std=c++17", "-fsyntax-only", "-DTILESMITH_CK_VERSION=202605", "-I",
                     folder.path().string(), "-I", std::string(TILESMITH_TEST_DIR) + "/ck_mock", source.string()},
       .time_limit = std::chrono::minutes(10)});
  ASSERT_TRUE(run.has_value()) << run.error().text();
  EXPECT_TRUE(run->succeeded()) << run->describe() << "\n" << run->errors.substr(0, 4000);
}

TEST(CkSource, GemmCompilesAgainstTheStandIn) {
  CkWriter units = writer("gfx950");
  std::string all, text;
  for (const GemmFamily family : {GemmFamily::standard, GemmFamily::preshuffle, GemmFamily::multi_d,
                                  GemmFamily::stream_k, GemmFamily::grouped_gemm}) {
    std::set<std::tuple<Pipeline, Epilogue, StreamKReduction>> written;
    std::size_t i = 0;
    enumerate_amd_gemm({.chip = chip("gfx950"), .spec = *amd_gemm_spec()}, family, [&](const KernelConfig& config) {
      const std::tuple kind(config.algorithm.pipeline, config.algorithm.epilogue,
                            std::get<GemmSignature>(config.signature).stream_k_reduction);
      const bool due = !written.contains(kind) || i++ % 2999 == 0;
      if (!due || !units.write(config, text)) return true;
      all += text + gemm_assertions(config);
      written.insert(kind);
      return true;
    });
    const std::size_t kinds = family == GemmFamily::preshuffle ? 1 : family == GemmFamily::stream_k ? 9 : 6;
    EXPECT_EQ(written.size(), kinds) << name_of(family);
  }
  expect_compiles(all);
}

TEST(CkSource, ConvolutionCompilesAgainstTheStandIn) {
  CkWriter units = writer("gfx950");
  std::string all, text;
  std::set<std::tuple<ConvDirection, int, Pipeline, bool, bool, bool, int, DataType>> written;
  std::map<std::string, int> refused;
  std::size_t i = 0;
  const AmdConvQuery query{.chip = chip("gfx950"), .spec = *amd_conv_spec(), .gemm = *amd_gemm_spec()};
  enumerate_amd_conv(query, [&](const KernelConfig& config) {
    const auto& s = std::get<ConvSignature>(config.signature);
    const Algorithm& a = config.algorithm;
    const std::tuple kind(s.direction, s.spatial_dims, a.pipeline, s.two_stage,
                          s.stream_k_reduction != StreamKReduction::none, a.explicit_gemm || s.large_tensor,
                          a.groups_merged, s.depthwise ? s.data_type : DataType::fp16);
    const bool due = !written.contains(kind) || i++ % 997 == 0;
    if (!due) return true;
    if (const Status status = units.write(config, text); !status) {
      const std::string& why = status.error().message;
      ++refused[why.substr(why.find("rule "), why.rfind(':') - why.find("rule "))];
      return true;
    }
    all += text + conv_assertions(config);
    written.insert(kind);
    return true;
  });
  std::set<ConvDirection> directions;
  std::set<Pipeline> pipelines;
  for (const auto& kind : written) {
    directions.insert(std::get<0>(kind));
    pipelines.insert(std::get<2>(kind));
  }
  EXPECT_EQ(directions.size(), 3u);
  EXPECT_EQ(pipelines, (std::set{Pipeline::compv1, Pipeline::mem, Pipeline::compv3, Pipeline::compv4, Pipeline::compv6,
                                 Pipeline::basic_async_v1, Pipeline::wavelet, Pipeline::depthwise}));
  EXPECT_GT(written.size(), 30u);
  for (const std::string_view rule : {"image_is_prepared", "depthwise_type_compiles"})
    EXPECT_TRUE(refused.contains(fmt::format("rule {}", rule))) << rule;
  expect_compiles(all);
}

INSTANTIATE_TEST_SUITE_P(All, CkSourceCompiles,
                         testing::Values(std::pair("gfx950", "2026-05"), std::pair("gfx950", "2026-09"),
                                         std::pair("gfx942", "2024-10"), std::pair("gfx90a", "2025-02"),
                                         std::pair("gfx942", "2025-07"), std::pair("gfx1100", "2026-05")));

}  // namespace
}  // namespace tilesmith
