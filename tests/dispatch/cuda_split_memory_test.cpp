// Who shares the memory of split products and who does not, against a fake driver.
#include "dispatch/cuda_split_memory.hpp"

#include <algorithm>
#include <thread>

#include "runtime/cuda/stream.hpp"
#include "runtime/cuda_fake.hpp"

namespace tilesmith {
namespace {

class CudaSplitMemories : public CudaFake {
 protected:
  [[nodiscard]] CudaStream stream() const { return CudaStream::create(*context_).value(); }
  [[nodiscard]] CudaGraph capture(cu::Stream stream, FunctionRef<void()> work) const {
    return CudaGraph::capture(*context_, stream,
                              [&]() -> Status {
                                work();
                                return {};
                              })
        .value();
  }
  static constexpr CudaSplitMemory::Size kSmall{1000, 3}, kLarge{5000, 100};
};

TEST_F(CudaSplitMemories, AStreamKeepsItsOwn) {
  CudaSplitMemory memory(*context_);
  const CudaStream a = stream(), b = stream();
  const auto first = memory.of(a.handle(), kSmall).value(), second = memory.of(b.handle(), kSmall).value(),
             main = memory.of(nullptr, kSmall).value();
  EXPECT_NE(first.counters, second.counters);
  EXPECT_NE(first.counters, main.counters);
  EXPECT_EQ(memory.of(a.handle(), kSmall)->counters, first.counters);
  EXPECT_EQ(memory.of(b.handle(), kSmall)->counters, second.counters);
  EXPECT_TRUE(std::all_of(first.counters, first.counters + kSmall.counters, [](unsigned c) { return c == 0; }));
  EXPECT_GE(reinterpret_cast<std::byte*>(first.parts) - reinterpret_cast<std::byte*>(first.counters),
            static_cast<std::ptrdiff_t>(kSmall.counters * 4));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.parts) % 16, reinterpret_cast<std::uintptr_t>(first.counters) % 16);
}

TEST_F(CudaSplitMemories, AfterPlanningTheFirstStreamAllocatesNothing) {
  CudaSplitMemory memory(*context_);
  ASSERT_TRUE(memory.reserve(kSmall));
  ASSERT_TRUE(memory.reserve(kLarge));
  ASSERT_TRUE(memory.reserve(kSmall));
  EXPECT_EQ(fake.allocations, 1) << "an unused smaller piece makes room";
  const CudaStream a = stream();
  const auto small = memory.of(a.handle(), kSmall).value();
  EXPECT_EQ(memory.of(a.handle(), kLarge)->counters, small.counters);
  EXPECT_EQ(fake.allocations, 1);
}

TEST_F(CudaSplitMemories, PlanningInsideACaptureDoesNotBreakIt) {
  CudaSplitMemory memory(*context_);
  ASSERT_TRUE(memory.reserve(kSmall));
  const CudaStream a = stream();
  const CudaGraph graph = capture(a.handle(), [&] { EXPECT_TRUE(memory.reserve(kLarge)); });
  EXPECT_EQ(fake.allocations, 1);
  EXPECT_EQ(fake.mode_at_free, static_cast<int>(cu::CaptureMode::relaxed));
}

TEST_F(CudaSplitMemories, AnOutgrownPieceStaysForLaunchesUnderWay) {
  CudaSplitMemory memory(*context_);
  const CudaStream a = stream(), b = stream();
  const auto small = memory.of(a.handle(), kSmall).value();
  const auto large = memory.of(a.handle(), kLarge).value();
  EXPECT_NE(small.counters, large.counters);
  EXPECT_NE(memory.of(b.handle(), kSmall)->counters, small.counters) << "given to a stream while another may use it";
  EXPECT_EQ(memory.of(a.handle(), kSmall)->counters, large.counters);
}

TEST_F(CudaSplitMemories, GraphsHoldTheirsAndGiveItBack) {
  CudaSplitMemory memory(*context_);
  const CudaStream a = stream();
  const unsigned* const own = memory.of(a.handle(), kSmall)->counters;
  const unsigned *first = nullptr, *again = nullptr, *second = nullptr, *third = nullptr;
  {
    const CudaGraph graph = capture(a.handle(), [&] {
      first = memory.of(a.handle(), kSmall)->counters;
      again = memory.of(a.handle(), kSmall)->counters;
    });
    EXPECT_NE(first, own);
    EXPECT_EQ(first, again) << "launches of one stream follow each other in the graph too";
    const CudaGraph other = capture(a.handle(), [&] { second = memory.of(a.handle(), kSmall)->counters; });
    EXPECT_NE(second, first) << "two graphs may run at the same time";
    EXPECT_EQ(memory.of(a.handle(), kSmall)->counters, own);
  }
  const int before = fake.allocations;
  const CudaGraph graph = capture(a.handle(), [&] { third = memory.of(a.handle(), kSmall)->counters; });
  EXPECT_TRUE(third == first || third == second);
  EXPECT_EQ(fake.allocations, before);
}

// A plan with large partial results does not set the size of every graph's piece.
TEST_F(CudaSplitMemories, AGraphTakesWhatItsLaunchesNeed) {
  CudaSplitMemory memory(*context_);
  constexpr CudaSplitMemory::Size kHuge{1 << 20, 3};
  ASSERT_TRUE(memory.reserve(kHuge));
  const CudaStream a = stream();
  std::vector<CudaGraph> graphs;
  ASSERT_TRUE(memory.of(a.handle(), kHuge));
  const std::size_t before = fake.allocated_bytes;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(memory.reserve(kSmall));
    graphs.push_back(capture(a.handle(), [&] { EXPECT_TRUE(memory.of(a.handle(), kSmall)); }));
  }
  EXPECT_LE(fake.allocated_bytes - before, 9 * kSmall.bytes());
}

// Pieces that graphs gave back are used again or make room for larger ones.
TEST_F(CudaSplitMemories, PiecesDoNotPileUp) {
  CudaSplitMemory memory(*context_);
  const CudaStream a = stream();
  for (std::size_t i = 1; i <= 50; ++i)
    const CudaGraph graph = capture(a.handle(), [&] { EXPECT_TRUE(memory.of(a.handle(), {1000 * i, 3})); });
  EXPECT_LE(fake.allocations, 2);
}

TEST_F(CudaSplitMemories, AGraphMayOutliveThem) {
  auto memory = std::make_unique<CudaSplitMemory>(*context_);
  const CudaStream a = stream();
  const CudaGraph graph = capture(a.handle(), [&] { EXPECT_TRUE(memory->of(a.handle(), kSmall)); });
  memory.reset();
}

TEST_F(CudaSplitMemories, ThreadsOfOneStreamShareOnePiece) {
  CudaSplitMemory memory(*context_);
  ASSERT_TRUE(memory.reserve(kLarge));
  const CudaStream a = stream();
  std::array<const unsigned*, 4> seen{};
  {
    std::vector<std::jthread> threads;
    for (const unsigned*& one : seen)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) one = memory.of(a.handle(), i % 2 == 0 ? kSmall : kLarge)->counters;
      });
  }
  for (const unsigned* one : seen) EXPECT_EQ(one, seen[0]);
}

TEST_F(CudaSplitMemories, StreamsHaveNumbersOfTheirOwn) {
  CudaStreamSlots slots(*context_);
  const CudaStream a = stream(), b = stream();
  EXPECT_EQ(slots.of(a.handle()).value(), slots.of(a.handle()).value());
  EXPECT_NE(slots.of(a.handle()).value(), slots.of(b.handle()).value());
  std::size_t given = 2;
  for (std::uintptr_t stream = 1 << 20; given < CudaStreamSlots::kStreams; ++stream, ++given)
    ASSERT_TRUE(slots.of(reinterpret_cast<cu::Stream>(stream)));
  const auto none = slots.of(reinterpret_cast<cu::Stream>(std::uintptr_t{1} << 30));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(slots.of(a.handle()));
}

}  // namespace
}  // namespace tilesmith
