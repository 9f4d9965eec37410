#include "tilesmith/device.hpp"

#include <gtest/gtest.h>

#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

TEST(Device, NamesReadBack) {
  for (const Device device : {Device{}, Device{DeviceKind::cuda, 0}, Device{DeviceKind::cuda, 17}})
    EXPECT_EQ(parse_device(to_string(device)), device);
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceKind::cuda, 0}));
}

TEST(Device, OtherNamesAreErrors) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "CPU", "cuda:99999999999"}) {
    const auto device = parse_device(text);
    ASSERT_FALSE(device) << text;
    EXPECT_EQ(device.error().code, ErrorCode::parse);
  }
}

TEST(Device, ADispatcherTellsItsOwn) {
  EXPECT_EQ(Dispatcher().device(), Device{});
  EXPECT_EQ(Dispatcher({.device = {DeviceKind::cuda, 3}}).device(), (Device{DeviceKind::cuda, 3}));
}

TEST(Device, OneThatIsNotThereIsAnErrorOfPlanning) {
  Dispatcher dispatcher({.device = {DeviceKind::cuda, 1000}});
  const auto plan = dispatcher.plan({.data_type = DataType::bf16});
  ASSERT_FALSE(plan);
  EXPECT_FALSE(plan.error().message.empty());
}

}  // namespace
}  // namespace tilesmith
