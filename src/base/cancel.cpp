#include "base/cancel.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/fork.hpp"

namespace tilesmith {
namespace {

thread_local CancelScope* innermost = nullptr;

struct Scopes {
  using Owners = std::map<const CancelScope*, std::pair<std::int64_t, std::stop_source>>;
  std::mutex mutex;
  Owners* owners = new Owners;
  AtFork at_fork{this, [](void* object) {
                   auto* self = static_cast<Scopes*>(object);
                   renew(self->mutex);
                   self->owners = new Owners;
                 }};
};

Scopes& scopes() {
  static Scopes* instance = new Scopes;
  return *instance;
}

}  // namespace

CancelScope::CancelScope() : outer_(innermost) {
  innermost = this;
  Scopes& all = scopes();
  const std::lock_guard lock(all.mutex);
  // gettid() itself came with glibc 2.30, and the portable wheel is built for 2.28.
  all.owners->emplace(this, std::pair(std::int64_t{::syscall(SYS_gettid)}, source_));
}

CancelScope::~CancelScope() {
  innermost = outer_;
  Scopes& all = scopes();
  const std::lock_guard lock(all.mutex);
  all.owners->erase(this);
}

std::stop_token current_stop() {
  return innermost != nullptr ? innermost->stop() : std::stop_token{};
}

void cancel_waits(std::int64_t thread) {
  Scopes& all = scopes();
  const std::lock_guard lock(all.mutex);
  for (auto& [scope, owner] : *all.owners)
    if (thread == 0 || owner.first == thread) owner.second.request_stop();
}

}  // namespace tilesmith
