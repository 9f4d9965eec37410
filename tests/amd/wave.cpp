#include "amd/wave.hpp"

namespace tilesmith::amdgpu {

void Wave::write(int index, const Row& values, std::uint64_t lanes_written) {
  Row& to = row(index);
  if (lanes_written == all_lanes()) {
    to = values;
    return;
  }
  for (std::uint64_t left = lanes_written; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(left));
    to[lane] = values[lane];
  }
}

Transfer& Wave::start(Counted kind, const Instruction& instruction, Transfer::Do perform) {
  const int at = chip.queue_of(kind);
  Queue& queue = queues_[static_cast<std::size_t>(at)];
  while (static_cast<int>(queue.transfers.size()) >= chip.most_outstanding[static_cast<std::size_t>(at)])
    complete_first(at);
  queue.kinds.push_back(kind);
  Transfer& transfer = queue.transfers.emplace_back();
  transfer.perform = perform;
  transfer.instruction = &instruction;
  transfer.lanes = exec();
  return transfer;
}

void Wave::issued(Counted kind) {
  // One in four is done at once, with all before it.
  if (random == nullptr || (*random)() % 4 != 0) return;
  const int at = chip.queue_of(kind);
  while (!queues_[static_cast<std::size_t>(at)].transfers.empty()) complete_first(at);
}

void Wave::complete_first(int queue) {
  Queue& of = queues_[static_cast<std::size_t>(queue)];
  Transfer& transfer = of.transfers.front();
  transfer.perform(*this, transfer);
  of.transfers.pop_front();
  of.kinds.pop_front();
}

void Wave::wait(const Instruction& instruction) {
  for (int at = 0; at < kQueues; ++at) {
    const int most = instruction.waits[static_cast<std::size_t>(at)];
    if (most < 0) continue;
    Queue& queue = queues_[static_cast<std::size_t>(at)];
    if (most == 0) {
      while (!queue.transfers.empty()) complete_first(at);
      continue;
    }
    // Scalar loads come back in any order (CDNA 3 ISA 4.4): with some among them, what a count above 0 waits for is
    // what came of the others.
    while (static_cast<int>(queue.transfers.size()) > most && queue.kinds.front() != Counted::scalar)
      complete_first(at);
  }
}

void Wave::finish_all() {
  for (int at = 0; at < kQueues; ++at)
    while (!queues_[static_cast<std::size_t>(at)].transfers.empty()) complete_first(at);
}

}  // namespace tilesmith::amdgpu
