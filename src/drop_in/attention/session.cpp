#include "drop_in/attention/session.hpp"

#include <fmt/format.h>

#include "drop_in/answer.hpp"
#include "problem/derive.hpp"

namespace tilesmith::drop_in {
namespace {

Result<Device> device_of(const char* arch) {
  if (arch != nullptr)
    if (const Result<Device> named = parse_device(arch)) return *named;
  return chosen_device();
}

}  // namespace

Result<std::shared_ptr<AttentionSession>> AttentionSession::open(const char* arch) {
  TS_ASSIGN(const Device device, device_of(arch));
  std::shared_ptr<AttentionSession> session(new AttentionSession(device));
  Error why;
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32}) {
    const AttentionBackwardProblem usual{
        .data_type = type, .batch = 1, .heads_q = 32, .heads_kv = 8, .seqlen_q = 1024, .seqlen_k = 1024};
    const auto add = [&](const auto& problem) {
      const Result<ChoiceInfo> choice = session->dispatcher_.candidates(problem, session->dispatcher_.options());
      if (choice)
        session->kernels_.add(*choice);
      else
        why = choice.error();
    };
    add(with_derived_fields(forward_of(usual)));
    add(with_derived_fields(usual));
  }
  if (session->kernels_.all().empty())
    return fail(ErrorCode::not_found, fmt::format("{} has no attention kernels: {}", to_string(device), why.text()),
                "another device, in TILESMITH_CK_DEVICE");
  return session;
}

void AttentionSession::keep(Appended appended) {
  const std::lock_guard lock(mutex_);
  appended_ = std::make_shared<const Appended>(std::move(appended));
}

std::shared_ptr<const Appended> AttentionSession::appended() {
  const std::lock_guard lock(mutex_);
  return appended_;
}

Result<std::shared_ptr<AttentionSession>> attention_session() {
  if (auto session = Sessions<AttentionSession>::get().current()) return session;
  return fail(ErrorCode::not_found, "attention is not initialised", "call fmha_dispatcher_initialize first");
}

}  // namespace tilesmith::drop_in

using namespace tilesmith;

int fmha_dispatcher_initialize(const char* arch) {
  return drop_in::answer("fmha_dispatcher_initialize", [&] {
    return drop_in::Sessions<drop_in::AttentionSession>::get().initialize(
        [&] { return drop_in::AttentionSession::open(arch); });
  });
}

int fmha_dispatcher_kernel_count(void) {
  const auto session = drop_in::Sessions<drop_in::AttentionSession>::get().current();
  return session ? static_cast<int>(session->kernels().all().size()) : 0;
}

void fmha_dispatcher_cleanup(void) {
  drop_in::Sessions<drop_in::AttentionSession>::get().clean_up();
}

int ck_fmha_register_kernels(void*, const char*) {
  log_error(
      "ck_fmha_register_kernels: a C++ registry of Composable Kernel cannot hold Tilesmith's kernels (call "
      "fmha_dispatcher_run_fwd and the others instead, which need no registry)");
  return 0;
}
