#include "amd/bench.hpp"

namespace tilesmith::amdgpu {

Bench::Bench(const Compiler& compiler, std::string_view chip, const std::vector<std::string>& lines,
             std::size_t local_bytes)
    : local_bytes_(local_bytes) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  auto program = compiler.assemble(chip, text);
  if (!program) {
    ADD_FAILURE() << program.error().text();
    program = compiler.assemble(chip, "");
  }
  program_ = std::make_unique<Program>(std::move(*program));
  reset();
}

void Bench::reset() {
  local_ = std::make_unique<LocalMemory>(local_bytes_);
  wave_ = std::make_unique<Wave>(program_->chip(), program_->image().kernel("snippet").lanes, *local_, memory_);
  for (int i = 0; i < kScalars; ++i) wave_->set_scalar(i, kPoison);
  for (int i = 0; i < 2 * kAccumulation; ++i) wave_->row(i).fill(kPoison);
  wave_->set_mask(kExec, wave_->all_lanes());
}

void Bench::execute(std::size_t i) {
  const Instruction& in = program_->instructions().at(i);
  wave_->next = i + 1;
  in.execute(*wave_, in);
  wave_->finish_all();
}

void Bench::execute_all() {
  for (std::size_t i = 0; i < size(); ++i) {
    const Instruction& in = program_->instructions()[i];
    in.execute(*wave_, in);
  }
}

void Bench::set_vector(int index, const std::function<std::uint32_t(int lane)>& value) {
  for (int lane = 0; lane < kLanes; ++lane) wave_->row(index)[static_cast<std::size_t>(lane)] = value(lane);
}

}  // namespace tilesmith::amdgpu
