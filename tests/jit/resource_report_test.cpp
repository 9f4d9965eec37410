#include "jit/resource_report.hpp"

#include <gtest/gtest.h>

#include "base/json.hpp"

namespace tilesmith {
namespace {

// Logs as NVRTC 13.0.88 writes them.
constexpr const char* kHealthy = R"(k.cu(3): warning #177-D: variable "u" was declared but never referenced
ptxas info    : 194 bytes gmem
ptxas info    : Compiling entry function 'ts_attention_fwd' for 'sm_90a'
ptxas info    : Function properties for ts_attention_fwd
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 1024 bytes smem
ptxas info    : Compile time = 1678.856 ms
)";

constexpr const char* kSpilling = R"(ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     2392 bytes stack frame, 4220 bytes spill stores, 5744 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 2392 bytes cumulative stack size
ptxas info    : Function properties for _Z1fPf
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads)";

// As 12.x writes them.
constexpr const char* kOlder = R"(ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    8 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, 1 barriers, 512 bytes smem, 400 bytes cmem[0]
)";

TEST(ResourceReport, ReadsAKernelsFigures) {
  const ResourceReport report = parse_resources(kHealthy);
  ASSERT_EQ(report.functions.size(), 1u);
  const FunctionResources expected{"ts_attention_fwd", true, 168, 16, 1024, 0, 0, 0};
  EXPECT_EQ(report.functions[0], expected);
  EXPECT_EQ(report.kernel("ts_attention_fwd"), &report.functions[0]);
  EXPECT_EQ(report.kernel("another"), nullptr);
  EXPECT_TRUE(report.advisories.empty());
  EXPECT_EQ(report.spill_bytes(), 0);
  EXPECT_TRUE(check_resources(report, 0).has_value());
}

TEST(ResourceReport, ReadsWhatOlderCompilersWrite) {
  const ResourceReport report = parse_resources(kOlder);
  ASSERT_EQ(report.functions.size(), 1u);
  const FunctionResources expected{"k", true, 40, 1, 512, 8, 0, 4};
  EXPECT_EQ(report.functions[0], expected);
}

TEST(ResourceReport, SpillsAreRefusedUnlessAllowed) {
  const ResourceReport report = parse_resources(kSpilling);
  ASSERT_EQ(report.functions.size(), 2u);
  EXPECT_EQ(report.functions[0].stack_bytes, 2392);
  EXPECT_FALSE(report.functions[1].is_kernel);
  EXPECT_EQ(report.spill_bytes(), 4220 + 5744);
  const Status refused = check_resources(report, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::compile_failed);
  EXPECT_NE(refused.error().message.find("k spills registers: 4220 bytes of stores, 5744 bytes of loads, with 32"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(check_resources(report, 1 << 20).has_value());
}

TEST(ResourceReport, LossesAreRefusedEvenWhereSpillsAreAllowed) {
  for (const std::string line :
       {"ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "insufficient register resources for the wgmma pipeline in the function 'k'",
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count "
        "at entry."}) {
    const ResourceReport report = parse_resources(line + "\n" + kHealthy);
    ASSERT_EQ(report.advisories.size(), 1u);
    const Status refused = check_resources(report, 1 << 20);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(line.substr(line.find("(C75"))), std::string::npos)
        << refused.error().message;
  }
}

TEST(ResourceReport, AdviceWithoutALossIsKeptAndAccepted) {
  const ResourceReport report = parse_resources(
      "ptxas info    : (C7519) warpgroup.arrive is injected in around line 37 by compiler to allow use of registers\n"
      "ptxas warning : Value of threads per SM is out of range\n");
  EXPECT_EQ(report.advisories.size(), 2u);
  EXPECT_TRUE(check_resources(report, 0).has_value());
}

TEST(ResourceReport, AnyTextCanBeRead) {
  for (const char* text : {"", "\n\n", "ptxas", "ptxas info    : Used registers",
                           "bytes stack frame, bytes spill stores", "ptxas info    : Function properties for ",
                           "Compiling entry function 'k", "Used 99999999999999999999 registers"}) {
    const ResourceReport report = parse_resources(text);
    EXPECT_EQ(report.spill_bytes(), 0) << text;
    EXPECT_EQ(report.kernel("k"), nullptr) << text;
  }
}

TEST(ResourceReport, SurvivesJson) {
  ResourceReport report = parse_resources(kSpilling);
  report.advisories = {"(C7519) something"};
  EXPECT_EQ(resource_report_from_json(to_json(report)), report);
  nlohmann::json broken = to_json(report);
  broken["functions"][0]["registers"] = "many";
  EXPECT_THROW(static_cast<void>(resource_report_from_json(broken)), nlohmann::json::exception);
}

}  // namespace
}  // namespace tilesmith
