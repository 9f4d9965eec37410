// Kernels, launches, memory, streams and tensor maps, against the fake driver.
#include "runtime/cuda/kernel.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

using cu::Code;

/// The header of a cubin as CUDA 12 (number in the first byte of the flags) or CUDA 13 (in the second) writes it.
std::string cubin(unsigned number, int cuda_major, const std::string& note = {}) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = cuda_major >= 13 ? 8 : 7;
  header.e_machine = 190;
  header.e_flags = cuda_major >= 13 ? 0x6000004 | number << 8 : 0x500 | number | number << 16;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + note;
}

TEST_F(CudaFake, ACubinsArchitectureIsReadFromIt) {
  EXPECT_EQ(cubin_arch(cubin(80, 12)), "sm_80");
  EXPECT_EQ(cubin_arch(cubin(86, 13)), "sm_86");
  EXPECT_EQ(cubin_arch(cubin(90, 13, " -arch sm_90a -m 64")), "sm_90a");
  EXPECT_EQ(cubin_arch(cubin(100, 13, " -arch sm_100f -m 64")), "sm_100f");
  EXPECT_EQ(cubin_arch(cubin(90, 13, " -arch sm_90 -m 64")), "sm_90");
  for (const std::string& bad : {std::string(),
                                 std::string("\x7f"
                                             "ELF"),
                                 std::string(200, 'x')})
    EXPECT_EQ(cubin_arch(bad).error().code, ErrorCode::load_failed);
}

TEST_F(CudaFake, CodeRunsOnItsMajorVersionAndNewerMinorOnes) {
  CudaDeviceInfo device;
  device.name = "D";
  const auto runs = [&](const char* arch, int major, int minor) {
    device.compute_major = major;
    device.compute_minor = minor;
    return check_runs_on(arch, device).has_value();
  };
  EXPECT_TRUE(runs("sm_80", 8, 0));
  EXPECT_TRUE(runs("sm_80", 8, 6));
  EXPECT_FALSE(runs("sm_86", 8, 0));
  EXPECT_FALSE(runs("sm_80", 9, 0));
  EXPECT_TRUE(runs("sm_90a", 9, 0));
  EXPECT_FALSE(runs("sm_100a", 10, 3));
  EXPECT_TRUE(runs("sm_100f", 10, 3));
  EXPECT_TRUE(runs("sm_120", 12, 1));
  EXPECT_EQ(check_runs_on("x86_64_v4", device).error().code, ErrorCode::invalid_argument);
  device.compute_major = 9;
  device.compute_minor = 0;
  const Error error = check_runs_on("sm_80", device).error();
  EXPECT_EQ(error.code, ErrorCode::load_failed);
  EXPECT_EQ(error.text(), "code for sm_80 does not run on D (compute capability 9.0) (compile it for sm_90a)");
}

class CudaFakeKernel : public CudaFake {
 protected:
  CudaKernel kernel(std::size_t dynamic_shared_bytes = 1000) {
    return CudaModule::load(*context_, cubin(90, 13)).value().kernel("k", dynamic_shared_bytes).value();
  }
};

TEST_F(CudaFakeKernel, LoadsAndTellsItsFacts) {
  const CudaKernel loaded = kernel();
  EXPECT_EQ(loaded.facts().registers, 14);  // the fake answers ten more than the attribute's number
  EXPECT_EQ(loaded.facts().local_bytes, 13);
  EXPECT_EQ(loaded.facts().static_shared_bytes, 11);
  EXPECT_EQ(fake.dynamic_shared_bytes, 1000);
  (void)kernel(50'000);
  EXPECT_EQ(fake.dynamic_shared_bytes, 232'448 - 11) << "so that blocks of a launch can be made to share no SM";
  EXPECT_EQ(fake.mode_at_load, 2) << "loading must be possible while the thread captures";
  EXPECT_EQ(fake.mode, 0) << "and the mode is put back";
  EXPECT_EQ(loaded.blocks_per_sm(256, 0), 8);
}

TEST_F(CudaFakeKernel, RefusesWhatCannotRun) {
  EXPECT_EQ(CudaModule::load(*context_, cubin(80, 13)).error().code, ErrorCode::load_failed);
  EXPECT_EQ(CudaModule::load(*context_, "no cubin").error().code, ErrorCode::load_failed);
  const CudaModule module = CudaModule::load(*context_, cubin(90, 13)).value();
  const auto absent = module.kernel("absent");
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::load_failed);
  EXPECT_NE(absent.error().message.find("looking for the kernel absent"), std::string::npos);
  const auto large = module.kernel("k", 232448);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::unsupported);
  EXPECT_EQ(large.error().message,
            "k needs 232459 bytes of shared memory a block (232448 of them dynamic), and Fake H200 has 232448");
}

TEST_F(CudaFakeKernel, GivesAnotherOfItsCubin) {
  const CudaKernel loaded = kernel();
  EXPECT_TRUE(loaded.other("k", 50'000).has_value());
  EXPECT_EQ(fake.dynamic_shared_bytes, 232'448 - 11);
  const auto absent = loaded.other("absent", 0);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::load_failed);
}

TEST_F(CudaFakeKernel, PacksALaunch) {
  const CudaKernel loaded = kernel();
  const auto stream = reinterpret_cast<cu::Stream>(0x5);
  CudaLaunch how;
  how.grid = {2, 3, 4};
  how.block = {384, 1, 1};
  how.dynamic_shared_bytes = 777;
  how.stream = stream;
  const int parameter = 42;
  ASSERT_TRUE(launch_with(loaded, how, parameter).has_value());
  EXPECT_EQ(fake.config.grid_x, 2u);
  EXPECT_EQ(fake.config.grid_y, 3u);
  EXPECT_EQ(fake.config.grid_z, 4u);
  EXPECT_EQ(fake.config.block_x, 384u);
  EXPECT_EQ(fake.config.shared_bytes, 777u);
  EXPECT_EQ(fake.config.stream, stream);
  EXPECT_EQ(fake.config.attribute_count, 0u);
  EXPECT_EQ(fake.extra, nullptr);
  EXPECT_EQ(fake.first_parameter, 42);

  how.cluster = {2, 1, 1};
  how.overlaps_previous = true;
  ASSERT_TRUE(launch_with(loaded, how, parameter).has_value());
  ASSERT_EQ(fake.config.attribute_count, 2u);
  EXPECT_EQ(fake.attributes[0].id, cu::LaunchAttributeId::cluster_dimension);
  EXPECT_EQ(fake.attributes[0].value.cluster.x, 2u);
  EXPECT_EQ(fake.attributes[0].value.cluster.z, 1u);
  EXPECT_EQ(fake.attributes[1].id, cu::LaunchAttributeId::programmatic_stream_serialization);
  EXPECT_EQ(fake.attributes[1].value.flag, 1);
  EXPECT_EQ(active_clusters(loaded, how), 2);
  EXPECT_EQ(fake.depth, 0) << "the context is not left behind";
}

TEST_F(CudaFakeKernel, AFailedLaunchNamesEveryNumber) {
  const CudaKernel loaded = kernel();
  fake.launch = Code::invalid_value;
  CudaLaunch how;
  how.grid = {0, 1, 1};
  how.block = {128, 1, 1};
  how.cluster = {2, 1, 1};
  how.dynamic_shared_bytes = 9;
  const Status failed = launch_with(loaded, how);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(failed.error().message,
            "CUDA_ERROR_INVALID_VALUE (words of the driver) while launching a grid of 0x1x1 blocks of 128x1x1 threads "
            "with 9 bytes of dynamic shared memory in clusters of 2x1x1");
}

TEST_F(CudaFake, MemoryIsGivenBackInItsContext) {
  {
    auto buffer = CudaBuffer::allocate(*context_, 4096);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->bytes(), 4096u);
    CudaBuffer moved = std::move(*buffer);
    EXPECT_EQ(buffer->data(), nullptr);
    EXPECT_EQ(buffer->bytes(), 0u);
    moved = CudaBuffer::allocate(*context_, 8).value();
    EXPECT_EQ(fake.allocations, 1);
    const auto pinned = CudaHostBuffer::allocate(*context_, 16);
    EXPECT_EQ(fake.allocations, 2);
  }
  EXPECT_EQ(fake.allocations, 0);
  EXPECT_EQ(fake.context_at_free, context_->handle());
  EXPECT_EQ(CudaBuffer::allocate(*context_, 0)->data(), nullptr);
}

TEST_F(CudaFake, OutOfMemorySaysWhatWasAskedAndWhatIsFree) {
  const auto buffer = CudaBuffer::allocate(*context_, std::size_t{4} << 20);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(
      buffer.error().message,
      "CUDA_ERROR_OUT_OF_MEMORY (words of the driver) while allocating 4.0 MiB on Fake H200, where 3.0 of 8.0 MiB "
      "are free");
}

TEST_F(CudaFake, CopiesAndFills) {
  const auto a = CudaBuffer::allocate(*context_, 8), b = CudaBuffer::allocate(*context_, 8);
  std::uint32_t in[2] = {1, 2}, out[2] = {};
  ASSERT_TRUE(copy_to_device(*context_, a->data(), in, 8).has_value());
  ASSERT_TRUE(copy_on_device(*context_, b->data(), a->data(), 8).has_value());
  ASSERT_TRUE(copy_to_host(*context_, out, b->data(), 8).has_value());
  EXPECT_EQ(out[1], 2u);
  ASSERT_TRUE(copy_anywhere(*context_, out, a->data(), 4).has_value());
  EXPECT_EQ(out[0], 1u);
  ASSERT_TRUE(fill_words(*context_, a->data(), 7, 2).has_value());
  ASSERT_TRUE(fill_bytes(*context_, a->data(), 1, 4).has_value());
  ASSERT_TRUE(copy_to_host(*context_, out, a->data(), 8).has_value());
  EXPECT_EQ(out[0], 0x01010101u);
  EXPECT_EQ(out[1], 7u);
  EXPECT_TRUE(copy_to_host(*context_, nullptr, nullptr, 0).has_value());
  fake.copy = Code::invalid_value;
  const Status failed = copy_to_device(*context_, a->data(), in, 8);
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message.find("copying 8 bytes to the device"), std::string::npos) << failed.error().message;
}

TEST_F(CudaFake, StreamsEventsAndGraphs) {
  const auto stream = CudaStream::create(*context_);
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ(fake.stream_flags, cu::kStreamNonBlocking);
  const auto start = CudaEvent::create(*context_);
  EXPECT_EQ(fake.event_flags, 0u);
  const auto stop = CudaEvent::create(*context_, CudaEvent::Timing::off);
  EXPECT_EQ(fake.event_flags, cu::kEventDisableTiming);
  EXPECT_TRUE(start->record(stream->handle()).has_value());
  EXPECT_TRUE(start->delay(stream->handle()).has_value());
  EXPECT_EQ(CudaEvent::seconds_between(*start, *stop), 0.0025);
  EXPECT_EQ(start->reached(), true);
  fake.event = Code::not_ready;
  EXPECT_EQ(start->reached(), false);
  fake.synchronize = Code::illegal_address;
  EXPECT_EQ(stream->synchronize().error().code, ErrorCode::launch_failed);
  fake.synchronize = Code::success;

  const auto graph = CudaGraph::capture(*context_, stream->handle(), [&]() -> Status {
    EXPECT_EQ(is_capturing(*context_, stream->handle()), true);
    return {};
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(is_capturing(*context_, stream->handle()), false);
  EXPECT_TRUE(graph->launch(stream->handle()).has_value());
  EXPECT_EQ(fake.launches, 1);
}

TEST_F(CudaFake, ACaptureThatFailsIsEnded) {
  const auto stream = CudaStream::create(*context_);
  const auto graph = CudaGraph::capture(*context_, stream->handle(),
                                        []() -> Status { return fail(ErrorCode::wrong_result, "the work failed"); });
  ASSERT_FALSE(graph.has_value());
  EXPECT_EQ(graph.error().message, "the work failed");
  EXPECT_FALSE(fake.capturing);
  EXPECT_EQ(CudaGraph::capture(*context_, nullptr, []() -> Status { return {}; }).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(CudaFake, ATensorMapIsEncodedAsAsked) {
  alignas(64) char tensor[16] = {};
  TsCudaTensorMap map{};
  const TensorMapDimension dimensions[] = {{128, 2, 64, 1}, {1000, 256, 128, 1}, {8, 256000, 1, 2}};
  const Status encoded = encode_tensor_map(*context_, {}, tensor, dimensions, map);
  ASSERT_TRUE(encoded.has_value()) << encoded.error().text();
  EXPECT_EQ(fake.map.type, 9);  // bf16
  EXPECT_EQ(fake.map.rank, 3);
  EXPECT_EQ(fake.map.interleave, 0);
  EXPECT_EQ(fake.map.swizzle, 3);  // 128 bytes
  EXPECT_EQ(fake.map.promotion, 2);
  EXPECT_EQ(fake.map.fill, 0);
  EXPECT_EQ(fake.extents, (std::array<std::uint64_t, 5>{128, 1000, 8}));
  EXPECT_EQ(fake.strides, (std::array<std::uint64_t, 5>{256, 256000}));
  EXPECT_EQ(fake.box, (std::array<std::uint32_t, 5>{64, 128, 1}));
  EXPECT_EQ(fake.steps, (std::array<std::uint32_t, 5>{1, 1, 2}));
  EXPECT_EQ(map.opaque[0], reinterpret_cast<std::uintptr_t>(tensor));
  EXPECT_TRUE(replace_address(*context_, nullptr, map).has_value());
  EXPECT_EQ(map.opaque[0], 0u);
  EXPECT_EQ(fake.context_at_encode, context_->handle()) << "the driver refuses without one";
}

TEST_F(CudaFake, AnIm2colMapIsEncodedAsAsked) {
  alignas(64) char tensor[16] = {};
  TsCudaTensorMap map{};
  // 4 images of 12 x 10 pixels and 64 channels, a window of 3 x 3 with a border of one, every second pixel.
  const Im2colDimension image[] = {{10, 128, -1, -1, 2}, {12, 1280, -1, -1, 2}};
  const Status encoded = encode_im2col_map(*context_, {}, tensor, 64, image, 4, 15360, 64, 128, map);
  ASSERT_TRUE(encoded.has_value()) << encoded.error().text();
  EXPECT_EQ(fake.map.rank, 4);
  EXPECT_EQ(fake.extents, (std::array<std::uint64_t, 5>{64, 10, 12, 4}));
  EXPECT_EQ(fake.strides, (std::array<std::uint64_t, 5>{128, 1280, 15360}));
  EXPECT_EQ(fake.lower, (std::array<int, 3>{-1, -1}));
  EXPECT_EQ(fake.upper, (std::array<int, 3>{-1, -1}));
  EXPECT_EQ(fake.box, (std::array<std::uint32_t, 5>{64, 128}));
  EXPECT_EQ(fake.steps, (std::array<std::uint32_t, 5>{1, 2, 2, 1}));
  EXPECT_EQ(map.opaque[0], reinterpret_cast<std::uintptr_t>(tensor));
}

TEST_F(CudaFake, AnIm2colMapThatCannotBeNamesTheRule) {
  alignas(64) char tensor[16] = {};
  TsCudaTensorMap map{};
  const Im2colDimension pixel{10, 128, 0, 0, 1}, far{10, 128, -129, 0, 1}, odd{10, 100, 0, 0, 1};
  struct Case {
    std::vector<Im2colDimension> image;
    std::uint32_t pixels;
    const char* message;
  };
  const Case cases[] = {{{}, 128, "0 coordinates of an image"},
                        {std::vector<Im2colDimension>(4, pixel), 128, "4 coordinates of an image"},
                        {{pixel}, 0, "0 pixels in a tile"},
                        {{pixel}, 1025, "1025 pixels in a tile"},
                        {{pixel, far}, 128, "a window from -129 to 0 in coordinate 1"},
                        {{odd, pixel}, 128, "dimension 1 has a stride of 100 bytes"}};
  for (const Case& each : cases) {
    const Status refused = encode_im2col_map(*context_, {}, tensor, 64, each.image, 4, 15360, 64, each.pixels, map);
    ASSERT_FALSE(refused.has_value()) << each.message;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find(each.message), std::string::npos) << refused.error().message;
  }
}

TEST_F(CudaFake, ATensorMapThatCannotBeNamesTheRule) {
  alignas(64) char tensor[32] = {};
  TsCudaTensorMap map{};
  struct Case {
    TensorMapFormat format;
    const void* address;
    std::vector<TensorMapDimension> dimensions;
    const char* message;
  };
  const TensorMapFormat format;
  const TensorMapFormat plain{.element = TensorMapElement::u8, .swizzle = TensorMapSwizzle::none};
  const TensorMapFormat narrow{.swizzle = TensorMapSwizzle::b32};
  const TensorMapDimension row{128, 2, 64, 1};
  const Case cases[] = {
      {format, tensor, {}, "tensor map: 0 dimensions"},
      {format, tensor, std::vector<TensorMapDimension>(6, row), "tensor map: 6 dimensions"},
      {format, tensor + 8, {row}, "is not 16-byte aligned"},
      {format, tensor, {{0, 2, 64, 1}}, "tensor map: dimension 0 has 0 elements"},
      {format, tensor, {row, {(1ull << 32) + 1, 256, 1, 1}}, "tensor map: dimension 1 has 4294967297 elements"},
      {format, tensor, {row, {4, 256, 257, 1}}, "tensor map: the tile has 257 elements in dimension 1"},
      {format, tensor, {row, {4, 256, 0, 1}}, "tensor map: the tile has 0 elements in dimension 1"},
      {format, tensor, {row, {4, 200, 1, 1}}, "tensor map: dimension 1 has a stride of 200 bytes"},
      {format, tensor, {row, {4, 1ull << 40, 1, 1}}, "tensor map: dimension 1 has a stride of 1099511627776 bytes"},
      {format, tensor, {row, {4, 256, 1, 9}}, "tensor map: dimension 1 has step 9"},
      {plain, tensor, {{128, 1, 24, 1}}, "tensor map: a row of the tile has 24 bytes (24 elements of dimension 0)"},
      {format, tensor, {{128, 2, 72, 1}}, "tensor map: a row of the tile has 144 bytes, the swizzle 128"},
      {narrow, tensor, {{128, 2, 24, 1}}, "tensor map: a row of the tile has 48 bytes, the swizzle 32"}};
  for (const Case& each : cases) {
    const Status refused = encode_tensor_map(*context_, each.format, each.address, each.dimensions, map);
    ASSERT_FALSE(refused.has_value()) << each.message;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find(each.message), std::string::npos) << refused.error().message;
    EXPECT_FALSE(refused.error().hint.empty());
  }
  fake.encode = Code::invalid_value;
  const TensorMapDimension dimensions[] = {row};
  EXPECT_NE(
      encode_tensor_map(*context_, format, tensor, dimensions, map).error().message.find("128 elements of stride"),
      std::string::npos);
}

}  // namespace
}  // namespace tilesmith
