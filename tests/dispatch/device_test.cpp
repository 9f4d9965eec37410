#include "tilesmith/device.hpp"

#include <gtest/gtest.h>

#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

TEST(Device, NamesReadBack) {
  for (const Device device :
       {Device{}, Device{DeviceKind::cuda, 0}, Device{DeviceKind::cuda, 17}, Device{DeviceKind::hip, 3}})
    EXPECT_EQ(parse_device(to_string(device)), device);
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(parse_device("hip"), (Device{DeviceKind::hip, 0}));
}

TEST(Device, OtherNamesAreErrors) {
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "CPU", "cuda:99999999999", "hip:x", "rocm:0"}) {
    const auto device = parse_device(text);
    ASSERT_FALSE(device) << text;
    EXPECT_EQ(device.error().code, ErrorCode::parse);
  }
}

TEST(Device, AKindThatIsNoneIsAnErrorAndNotACudaDevice) {
  const Device none{static_cast<DeviceKind>(17), 0};
  EXPECT_EQ(to_string(none), "device of unknown kind 17");
  EXPECT_FALSE(parse_device(to_string(none)));
  EXPECT_FALSE(is_gpu(none.kind));
  const auto plan = Dispatcher({.device = none}).plan(GemmProblem{.m = 1, .n = 1, .k = 1});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::not_found);
  EXPECT_EQ(plan.error().message, "there is no device of unknown kind 17");
}

TEST(Device, ADispatcherTellsItsOwn) {
  EXPECT_EQ(Dispatcher().device(), Device{});
  EXPECT_EQ(Dispatcher({.device = {DeviceKind::cuda, 3}}).device(), (Device{DeviceKind::cuda, 3}));
}

TEST(Device, OneThatIsNotThereIsAnErrorOfPlanning) {
  Dispatcher dispatcher({.device = {DeviceKind::cuda, 1000}});
  const auto plan = dispatcher.plan(AttentionProblem{.data_type = DataType::bf16});
  ASSERT_FALSE(plan);
  EXPECT_FALSE(plan.error().message.empty());
}

}  // namespace
}  // namespace tilesmith
