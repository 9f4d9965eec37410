// What the fake HIP runtime's answers are and what it was asked: shared by the library and the tests that open it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/hip/types.hpp"

namespace tilesmith::testing {

/// The devices that the fake can have, in their order.
struct FakeHipDevice {
  const char* name;
  const char* processor;  ///< as the runtime tells it
  int compute_units, lanes_per_wave;
};
inline constexpr FakeHipDevice kFakeHipDevices[] = {{"Fake MI300X", "gfx942:sramecc+:xnack-", 304, 64},
                                                    {"Fake RX 7900 XTX", "gfx1100", 96, 32},
                                                    {"Fake MI250X", "gfx90a:sramecc+:xnack-", 110, 64},
                                                    {"Fake MI355X", "gfx950:sramecc+:xnack-", 256, 64},
                                                    {"Fake RX 9070 XT", "gfx1201", 64, 32}};

struct FakeLibamdhip64 {
  /// A kernel on the host: called with the bytes of its one parameter and the number of blocks.
  struct Kernel {
    std::function<void(const void* arguments, int blocks)> run;
    std::size_t argument_bytes = 0;
  };
  struct Launch {
    Kernel kernel;
    std::vector<std::byte> arguments;
    unsigned blocks = 0, threads = 0, dynamic_lds_bytes = 0;
    hip::Stream stream = nullptr;
  };

  // Answers.
  int version = 60'232'830;
  int devices = 2;  ///< of those of kFakeHipDevices
  hip::Code init = hip::Code::success;
  hip::Code set_device = hip::Code::success;
  hip::Code malloc = hip::Code::success;
  hip::Code copy = hip::Code::success;
  hip::Code load = hip::Code::success;
  hip::Code launch = hip::Code::success;
  hip::Code synchronize = hip::Code::success;
  hip::Code event = hip::Code::success;
  hip::Code instantiate = hip::Code::success;
  std::map<std::string, Kernel> kernels{};               ///< by symbol
  std::string processor = kFakeHipDevices[0].processor;  ///< of the first device

  // The journal.
  int current = 0;  ///< device
  int device_at_free = -1;
  std::map<void*, std::size_t> allocations{};  ///< not yet freed, and their bytes
  int objects = 0;                             ///< streams, events and graphs not yet destroyed
  int mode_at_load = -1;
  int mode = 0;  ///< of capture, this thread's
  bool capturing = false;
  std::vector<Launch> launches{};
};

}  // namespace tilesmith::testing
