#include "capi/sized_struct.hpp"

#include <gtest/gtest.h>

#include <cstddef>

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
  tilesmith_attention_gradients gradients{};
  EXPECT_EQ(tilesmith_attention_backward(nullptr, &gradients), TILESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tilesmith_attention_backward_dense(&gradients, TILESMITH_BHSD), TILESMITH_INVALID_ARGUMENT);
  const tilesmith_attention_backward_plan* backward = nullptr;
  EXPECT_EQ(tilesmith_attention_backward_plan_for(nullptr, &gradients, &backward), TILESMITH_INVALID_ARGUMENT);
  tilesmith_error last = TILESMITH_ERROR_INIT;
  ASSERT_EQ(tilesmith_last_error(&last), TILESMITH_SUCCESS);
  EXPECT_STREQ(last.message, "tilesmith_attention_gradients.struct_size is 0");
  EXPECT_EQ(tilesmith_attention_dense(&call, TILESMITH_BHSD), TILESMITH_INVALID_ARGUMENT);
  ASSERT_EQ(tilesmith_last_error(&last), TILESMITH_SUCCESS);
  EXPECT_STREQ(last.message, "tilesmith_attention.struct_size is 0");
  EXPECT_STREQ(last.hint, "sizeof(tilesmith_attention), which is 768; its _INIT macro sets it");
  EXPECT_EQ(tilesmith_attention_forward(nullptr, nullptr), TILESMITH_INVALID_ARGUMENT);
  ASSERT_EQ(tilesmith_last_error(&last), TILESMITH_SUCCESS);
  EXPECT_STREQ(last.message, "the tilesmith_attention is null");
  EXPECT_STREQ(last.hint, "the address of one that its _INIT macro set");
}

struct Sample {
  std::uint64_t struct_size;
  std::int64_t first;
  std::int64_t added;
};
constexpr std::size_t kEarlier = offsetof(Sample, added);

TEST(SizedStruct, AnEarlierVersionLacksNothing) {
  Sample room{0, 7, 7};
  const Sample current{sizeof(Sample), 3, 5}, earlier{kEarlier, 3, 5};
  EXPECT_EQ(*read_struct("sample", &current, {kEarlier}, room), &current);
  EXPECT_TRUE(read_struct("sample", &earlier, {4, kEarlier}, room)) << "an earlier version, and not the first";
  const Result<const Sample*> read = read_struct("sample", &earlier, {kEarlier}, room);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, &room);
  EXPECT_EQ(room.first, 3);
  EXPECT_EQ(room.added, 0);  // what lies behind the caller's structure is not the library's to read
}

TEST(SizedStruct, ASizeBetweenVersionsIsNone) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{17}, std::uint64_t{23}}) {
    Sample room{};
    const Sample given{size, 3, 5};
    const Result<const Sample*> read = read_struct("sample", &given, {kEarlier}, room);
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE(check_struct("sample", &given, sizeof given));
  }
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
