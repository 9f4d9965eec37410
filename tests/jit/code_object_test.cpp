#include "jit/code_object.hpp"

#include <gtest/gtest.h>

#include "jit/made_code_object.hpp"

namespace tilesmith {
namespace {
using testing::made_code_object;
using testing::made_kernel;

TEST(CodeObjectTest, TellsWhatEveryKernelTakes) {
  const auto object = read_code_object(made_code_object("gfx942", {made_kernel("one"), made_kernel("two")}));
  ASSERT_TRUE(object.has_value()) << object.error().text();
  EXPECT_EQ(object->target, "amdgcn-amd-amdhsa--gfx942");
  ASSERT_EQ(object->resources.functions.size(), 2u);
  const FunctionResources* two = object->resources.kernel("two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->registers, 72);
  EXPECT_EQ(two->shared_bytes, 32768);
  EXPECT_TRUE(object->resources.advisories.empty());
  EXPECT_TRUE(check_resources(object->resources, 0).has_value());
}

TEST(CodeObjectTest, SpilledVectorRegistersAreSpills) {
  nlohmann::json kernel = made_kernel("k");
  kernel[".vgpr_spill_count"] = 3;
  kernel[".private_segment_fixed_size"] = 16;
  const auto object = read_code_object(made_code_object("gfx90a", {kernel}));
  ASSERT_TRUE(object.has_value()) << object.error().text();
  EXPECT_EQ(object->resources.kernel("k")->spill_store_bytes, 12);
  EXPECT_FALSE(check_resources(object->resources, 8).has_value());
  EXPECT_TRUE(check_resources(object->resources, 12).has_value());
}

TEST(CodeObjectTest, MemoryOfEachLaneIsALossAndSpilledScalarsAreAdvice) {
  nlohmann::json kernel = made_kernel("k");
  kernel[".sgpr_spill_count"] = 5;
  const auto scalars = read_code_object(made_code_object("gfx942", {kernel}));
  ASSERT_TRUE(scalars.has_value());
  ASSERT_EQ(scalars->resources.advisories.size(), 1u);
  EXPECT_TRUE(check_resources(scalars->resources, 0).has_value());
  kernel[".private_segment_fixed_size"] = 64;
  const auto object = read_code_object(made_code_object("gfx942", {kernel}));
  ASSERT_TRUE(object.has_value());
  const Status refused = check_resources(object->resources, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("k keeps 64 bytes of memory for each lane"), std::string::npos)
      << refused.error().message;
}

TEST(CodeObjectTest, BytesThatAreNoneAreErrorsWithTheReason) {
  const std::string whole = made_code_object("gfx942", {made_kernel("k")});
  std::string other_machine = whole;
  other_machine[offsetof(Elf64_Ehdr, e_machine)] = EM_X86_64;
  nlohmann::json nameless = made_kernel("k");
  nameless.erase(".name");
  const std::pair<std::string, std::string> cases[] = {
      {"", "no 64-bit ELF file"},
      {std::string(200, 'x'), "no 64-bit ELF file"},
      {other_machine, "its machine is 62"},
      {made_code_object("gfx942", {nameless}), "note of metadata cannot be read"},
  };
  for (const auto& [bytes, words] : cases) {
    const auto object = read_code_object(bytes);
    ASSERT_FALSE(object.has_value()) << words;
    EXPECT_EQ(object.error().code, ErrorCode::internal);
    EXPECT_NE(object.error().message.find(words), std::string::npos) << object.error().message;
  }
}

TEST(CodeObjectTest, NoTornFileIsTakenAndNoChangedByteIsFatal) {
  const std::string whole = made_code_object("gfx942", {made_kernel("k")});
  // Words are filled up at the end; what is cut there was never read.
  for (std::size_t size = 0; size + 4 < whole.size(); ++size)
    EXPECT_FALSE(read_code_object(std::string_view(whole).substr(0, size)).has_value()) << size;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      (void)read_code_object(changed);
    }
}

}  // namespace
}  // namespace tilesmith
