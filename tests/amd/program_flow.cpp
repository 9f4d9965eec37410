// Branches, barriers, waits, and what changes nothing that a program can see: SOPP (CDNA 3 ISA 4 and 12.5, RDNA 3 and
// RDNA 4 ISA 5 and 16.5).
#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

void nothing(Wave&, const Instruction&) {}

template <auto kCondition>
void branch(Wave& wave, const Instruction& in) {
  if (!kCondition(wave)) return;
  if (in.target < 0) fault("the branch leads out of the program");
  wave.next = static_cast<std::size_t>(in.target);
}

template <class F>
constexpr Handler branch(F) {
  return branch<F{}>;
}

void end(Wave& wave, const Instruction&) {
  wave.finish_all();
  wave.state = Wave::State::ended;
}

void barrier(Wave& wave, const Instruction&) {
  ++wave.barriers_signalled;
  wave.state = Wave::State::at_barrier;
}
void check_barrier(const Instruction& in, std::string_view argument) {
  if (in.argument != argument) fault("named barriers are not emulated");
}
void barrier_signal(Wave& wave, const Instruction& in) {
  check_barrier(in, "-1");
  if (wave.barriers_signalled != wave.barriers_passed) fault("a second signal without a wait between");
  ++wave.barriers_signalled;
}
void barrier_wait(Wave& wave, const Instruction& in) {
  check_barrier(in, "0xffff");
  if (wave.barriers_signalled == wave.barriers_passed) fault("a wait without a signal");
  wave.state = Wave::State::at_barrier;
}

void wait(Wave& wave, const Instruction& in) {
  wave.wait(in);
}

void get_pc(Wave& wave, const Instruction& in) {
  wave.set_scalar_pair(in.at(0).index, wave.image + in.address + static_cast<u64>(in.bytes));
}

void run_into_padding(Wave&, const Instruction&) {
  fault("the program runs over its end");
}

constexpr auto kText = Operation::text_operands;
constexpr Operation kOperations[] = {
    {"s_nop", nothing, kText},
    {"s_sleep", nothing, kText},
    {"s_setprio", nothing, kText},
    {"s_clause", nothing, kText},
    {"s_delay_alu", nothing, kText},
    {"s_set_inst_prefetch_distance", nothing, kText},
    {"s_sendmsg", nothing, kText},
    {"s_waitcnt_depctr", nothing, kText},
    {"s_wait_alu", nothing, kText},
    {"s_wait_idle", nothing, kText},
    {"s_code_end", run_into_padding, kText},
    {"s_endpgm", end, kText},
    {"s_barrier", barrier, kText},
    {"s_barrier_signal", barrier_signal, kText},
    {"s_barrier_wait", barrier_wait, kText},
    {"s_waitcnt", wait, kText},
    {"s_waitcnt_vscnt", wait, kText},
    {"s_wait_loadcnt", wait, kText},
    {"s_wait_storecnt", wait, kText},
    {"s_wait_dscnt", wait, kText},
    {"s_wait_kmcnt", wait, kText},
    {"s_wait_loadcnt_dscnt", wait, kText},
    {"s_wait_storecnt_dscnt", wait, kText},
    {"s_getpc_b64", get_pc},
    {"s_branch", branch([](const Wave&) { return true; }), kText},
    {"s_cbranch_scc0", branch([](const Wave& w) { return !w.scc; }), kText},
    {"s_cbranch_scc1", branch([](const Wave& w) { return w.scc; }), kText},
    {"s_cbranch_vccz", branch([](const Wave& w) { return w.mask(kVcc) == 0; }), kText},
    {"s_cbranch_vccnz", branch([](const Wave& w) { return w.mask(kVcc) != 0; }), kText},
    {"s_cbranch_execz", branch([](const Wave& w) { return w.exec() == 0; }), kText},
    {"s_cbranch_execnz", branch([](const Wave& w) { return w.exec() != 0; }), kText},
};

}  // namespace

std::span<const Operation> program_flow_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
