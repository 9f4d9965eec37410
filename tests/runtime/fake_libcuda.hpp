// What the fake driver's answers are and what it was asked: shared by the library and the tests that open it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/cuda/types.hpp"

namespace tilesmith::testing {

struct FakeLibcuda {
  // Answers.
  int version = 13000;
  int devices = 2;  ///< an H200 and an A10
  cu::Code init = cu::Code::success;
  cu::Code retain = cu::Code::success;
  cu::Code synchronize = cu::Code::success;
  cu::Code launch = cu::Code::success;
  cu::Code copy = cu::Code::success;
  cu::Code event = cu::Code::success;
  cu::Code encode = cu::Code::success;

  // The journal.
  std::intptr_t handles = 0;
  int retained = 0;                 ///< primary contexts
  int allocations = 0;              ///< not yet freed
  std::size_t allocated_bytes = 0;  ///< of device memory, freed or not
  int objects = 0;                  ///< streams, events and graphs not yet destroyed
  int launches = 0;
  int pushes = 0;
  int depth = 0;
  std::array<void*, 16> stack{};  ///< of current contexts
  void* context_at_free = nullptr;
  void* context_at_encode = nullptr;
  bool capturing = false;
  std::uint64_t captures = 0;  ///< begun; the last one's identity
  void* captured_graph = nullptr;
  int mode = 0;  ///< of capture, this thread's
  int mode_at_load = -1;
  int mode_at_free = -1;
  int dynamic_shared_bytes = -1;
  unsigned stream_flags = 0;
  unsigned event_flags = 0;
  cu::LaunchConfig config{};
  std::array<cu::LaunchAttribute, 2> attributes{};
  void** extra = nullptr;
  int first_parameter = 0;
  struct Map {
    int type, rank, interleave, swizzle, promotion, fill;
  } map{};
  std::array<std::uint64_t, 5> extents{}, strides{};
  std::array<std::uint32_t, 5> box{}, steps{};
  std::array<int, 3> lower{}, upper{};  ///< corners of an im2col map's window
};

}  // namespace tilesmith::testing
