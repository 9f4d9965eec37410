// Single instructions on a wave whose registers a test sets and reads.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "amd/compiler.hpp"
#include "amd/local_memory.hpp"
#include "amd/wave.hpp"

namespace tilesmith::amdgpu {

/// Assembled lines of one chip, one instruction each, and a wave to execute them on.
class Bench {
 public:
  /// A failure of the test where a line cannot be assembled or decoded.
  Bench(const Compiler& compiler, std::string_view chip, const std::vector<std::string>& lines,
        std::size_t local_bytes = 1024);

  /// Executes line `i`, and what of memory it leaves outstanding.
  void execute(std::size_t i);
  /// Executes all lines in turn, as they stand.
  void execute_all();
  [[nodiscard]] std::size_t size() const { return program_->instructions().size() - 1; }
  [[nodiscard]] const std::string& text(std::size_t i) const { return program_->instructions()[i].text; }

  Wave& wave() { return *wave_; }
  LocalMemory& local() { return *local_; }
  DeviceMemory& memory() { return memory_; }
  /// A new wave: everything is poison, EXEC all lanes.
  void reset();

  // Registers by their numbers.
  void set_vector(int index, const std::function<std::uint32_t(int lane)>& value);
  [[nodiscard]] std::uint32_t vector(int index, int lane) const {
    return wave_->row(index)[static_cast<std::size_t>(lane)];
  }

 private:
  std::unique_ptr<Program> program_;
  std::size_t local_bytes_;
  DeviceMemory memory_;
  std::unique_ptr<LocalMemory> local_;
  std::unique_ptr<Wave> wave_;
};

/// Tests of single instructions: skipped where the tools are missing.
class InstructionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = Compiler::find();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = std::make_unique<Compiler>(std::move(*found));
  }
  [[nodiscard]] Bench bench(std::string_view chip, const std::vector<std::string>& lines,
                            std::size_t local_bytes = 1024) const {
    return Bench(*compiler_, chip, lines, local_bytes);
  }
  [[nodiscard]] const Compiler& compiler() const { return *compiler_; }

 private:
  std::unique_ptr<Compiler> compiler_;
};

inline constexpr std::string_view kAllChips[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

}  // namespace tilesmith::amdgpu
