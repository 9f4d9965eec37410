#include "amd/machine.hpp"

#include <cstring>
#include <memory>
#include <random>

#include "amd/fault.hpp"
#include "amd/initial_state.hpp"
#include "amd/local_memory.hpp"
#include "amd/wave.hpp"

namespace tilesmith::amdgpu {
namespace {

class Workgroup {
 public:
  Workgroup(const Program& program, const Launch& launch, std::array<std::uint32_t, 3> block, std::mt19937* random)
      : program_(program), local_(launch.kernel.descriptor.group_segment_bytes), random_(random) {
    const int lanes = launch.kernel.lanes;
    const auto& threads = launch.grid.threads;
    const auto count = static_cast<int>(threads[0] * threads[1] * threads[2]);
    for (int first = 0; first < count; first += lanes) {
      auto wave = std::make_unique<Wave>(program.chip(), lanes, local_, launch.memory);
      wave->number = static_cast<int>(waves_.size());
      wave->random = random;
      set_initial_state(*wave, launch, block, first);
      wave->next = program.at(launch.kernel.entry);
      waves_.push_back(std::move(wave));
    }
  }

  /// Up to the end of all waves.
  void run(RunReport& report, std::uint64_t most_instructions) {
    for (;;) {
      Wave* wave = choose();
      if (wave == nullptr) {
        if (all_ended()) return;
        if (!pass_barrier()) fault("waves wait at a barrier that not all come to");
        continue;
      }
      current_ = wave;
      for (int left = stretch(); left > 0 && wave->state == Wave::State::running; --left) {
        if (wave->next >= report.times.size()) fault("the program runs over its end");
        ++report.times[wave->next];
        step(*wave);
        if (++report.instructions > most_instructions) fault("the kernel does not end");
      }
    }
  }

  [[nodiscard]] std::string where() const {
    if (current_ == nullptr || executing_ == nullptr) return "at its start";
    return fmt::format("wave {}, '{}' at {:#x}", current_->number, executing_->text, executing_->address);
  }

 private:
  void step(Wave& wave) {
    executing_ = &program_.instructions()[wave.next++];
    executing_->execute(wave, *executing_);
  }

  /// A wave that can go on; null: none.
  Wave* choose() {
    std::size_t running = 0;
    for (const auto& wave : waves_) running += wave->state == Wave::State::running;
    if (running == 0) return nullptr;
    std::size_t at = random_ == nullptr ? 0 : (*random_)() % running;
    for (const auto& wave : waves_)
      if (wave->state == Wave::State::running && at-- == 0) return wave.get();
    return nullptr;
  }
  /// Instructions that a wave does before another may go on: a few, or many.
  int stretch() {
    if (random_ == nullptr) return 1 << 20;
    return 1 << (*random_)() % 10;
  }

  [[nodiscard]] bool all_ended() const {
    for (const auto& wave : waves_)
      if (wave->state != Wave::State::ended) return false;
    return true;
  }
  /// Lets the waves go on that wait for a barrier which every wave that has not ended has signalled.
  bool pass_barrier() {
    bool some = false;
    int fewest = 1 << 30;
    for (const auto& wave : waves_)
      if (wave->state != Wave::State::ended) fewest = std::min(fewest, wave->barriers_signalled);
    for (const auto& wave : waves_)
      if (wave->state == Wave::State::at_barrier && wave->barriers_passed < fewest) {
        ++wave->barriers_passed;
        wave->state = Wave::State::running;
        some = true;
      }
    return some;
  }

  const Program& program_;
  LocalMemory local_;
  std::mt19937* random_;
  std::vector<std::unique_ptr<Wave>> waves_;
  Wave* current_ = nullptr;
  const Instruction* executing_ = nullptr;
};

}  // namespace

Result<RunReport> run(const Program& program, std::string_view kernel_name, std::string_view arguments,
                      const Grid& grid, const DeviceMemory& given, const RunOptions& options) {
  RunReport report;
  report.times.resize(program.instructions().size());
  std::string where = "before the first instruction";
  try {
    const Kernel& kernel = program.image().kernel(kernel_name);
    const std::vector<char> kernarg = kernel_arguments(kernel, arguments, grid);
    DeviceMemory memory = given;
    memory.add("the kernel's arguments", kernarg.data(), kernarg.size(), DeviceMemory::Access::read);
    memory.add("the code object", program.image().memory(), program.image().bytes(), DeviceMemory::Access::read);
    const Launch launch{program, kernel, grid, memory, kernarg};
    std::mt19937 random(options.seed);
    for (std::uint32_t z = 0; z < grid.blocks[2]; ++z)
      for (std::uint32_t y = 0; y < grid.blocks[1]; ++y)
        for (std::uint32_t x = 0; x < grid.blocks[0]; ++x) {
          Workgroup group(program, launch, {x, y, z}, options.seed == 0 ? nullptr : &random);
          try {
            group.run(report, options.most_instructions);
          } catch (const Fault&) {
            where = fmt::format("block ({}, {}, {}), {}", x, y, z, group.where());
            throw;
          }
        }
  } catch (const Fault& fault) {
    return fail(ErrorCode::internal, fmt::format("{}, {}: {}", kernel_name, where, fault.what()));
  }
  return report;
}

}  // namespace tilesmith::amdgpu
