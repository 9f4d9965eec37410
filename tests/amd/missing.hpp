// Programs without one of their barriers or waits, which a run must find wrong.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "amd/program.hpp"

namespace tilesmith::amdgpu {

struct Missing {
  int barriers = 0, waits = 0, found_waits = 0;

  /// Removes each barrier and each wait of the program that was executed, one at a time. A barrier without which
  /// nothing is wrong is a failure of the test; some waits come again before the value is used.
  void remove_each(Program& program, const std::vector<std::uint64_t>& times, const std::function<bool()>& is_wrong) {
    const std::vector<Instruction>& all = program.instructions();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string_view mnemonic = all[i].operation->mnemonic;
      const bool barrier = mnemonic == "s_barrier" || mnemonic == "s_barrier_signal";
      const bool wait = std::ranges::any_of(all[i].waits, [](int most) { return most >= 0; });
      if (times[i] == 0 || (!barrier && !wait)) continue;
      std::vector<std::size_t> removed = {i};
      // A barrier of RDNA 4 is a signal and a wait.
      for (std::size_t next = i + 1; mnemonic == "s_barrier_signal" && removed.size() == 1; ++next)
        if (all[next].operation->mnemonic == "s_barrier_wait") removed.push_back(next);
      for (const std::size_t each : removed) program.remove(each);
      const bool found = is_wrong();
      for (const std::size_t each : removed) program.restore(each);
      if (barrier) {
        EXPECT_TRUE(found) << fmt::format("'{}' at {:#x} is not needed", all[i].text, all[i].address);
      }
      barriers += barrier;
      waits += wait;
      found_waits += wait && found;
    }
  }

  /// Every barrier and most waits were found.
  void expect_found() const {
    EXPECT_GE(barriers, 2);
    EXPECT_GT(found_waits, waits / 2) << "of " << waits << " waits";
    ::testing::Test::RecordProperty("waits_removed", waits);
    ::testing::Test::RecordProperty("waits_found", found_waits);
  }
};

}  // namespace tilesmith::amdgpu
