#include "capi/sized_struct.hpp"

#include <gtest/gtest.h>

#include "tilesmith.h"

namespace tilesmith::capi {
namespace {

TEST(SizedStruct, EveryEntryChecksItsOwn) {
  tilesmith_error error{};
  EXPECT_EQ(tilesmith_last_error(&error), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_last_error(nullptr), TILESMITH_INVALID_ARGUMENT);
  tilesmith_device_info device{};
  EXPECT_EQ(tilesmith_device_at(0, &device), TILESMITH_INVALID_ARGUMENT);
  tilesmith_backend_info backend{};
  EXPECT_EQ(tilesmith_backend(TILESMITH_CPU, &backend), TILESMITH_INVALID_ARGUMENT);
  tilesmith_context_options options{};
  tilesmith_context* context = nullptr;
  EXPECT_EQ(tilesmith_context_create(&options, &context), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
  tilesmith_attention call{};
  EXPECT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_INVALID_ARGUMENT);
  const tilesmith_attention_plan* plan = nullptr;
  EXPECT_EQ(tilesmith_attention_plan_for(nullptr, &call, &plan), TILESMITH_INVALID_ARGUMENT);
  tilesmith_error last = TILESMITH_ERROR_INIT;
  ASSERT_EQ(tilesmith_last_error(&last), TILESMITH_SUCCESS);
  EXPECT_STREQ(last.message, "tilesmith_attention.struct_size is 0");
  EXPECT_STREQ(last.hint, "sizeof(tilesmith_attention), which is 424; its _INIT macro sets it");
}

TEST(SizedStruct, AnOutputKeepsTheCallersSizeAndTail) {
  struct {
    tilesmith_error error = TILESMITH_ERROR_INIT;
    std::uint64_t later = 0;
  } newer;
  newer.error.struct_size = sizeof newer;
  ASSERT_EQ(tilesmith_last_error(&newer.error), TILESMITH_SUCCESS);
  EXPECT_EQ(newer.error.struct_size, sizeof newer);
  EXPECT_EQ(newer.later, 0u);
  EXPECT_NE(newer.error.message, nullptr);
}

}  // namespace
}  // namespace tilesmith::capi
