#include "base/end_of_work.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "base/fork.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constinit std::atomic<bool> ended{false};
constinit std::atomic<int> running{0};

struct Temporaries {
  std::mutex mutex;
  std::set<fs::path>* paths = new std::set<fs::path>;
  AtFork at_fork{this, [](void* object) {
                   auto* self = static_cast<Temporaries*>(object);
                   renew(self->mutex);
                   self->paths = new std::set<fs::path>;  // those of the parent are the parent's
                   running = 0;
                   ended = false;
                 }};
};

Temporaries& temporaries() {
  static Temporaries* instance = new Temporaries;  // never destroyed: directories go as late as the process ends
  return *instance;
}

}  // namespace

bool work_has_ended() {
  return ended.load(std::memory_order_relaxed);
}

void end_work(std::chrono::milliseconds bound) {
  ended = true;
  const auto deadline = std::chrono::steady_clock::now() + bound;
  while (running > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Temporaries& known = temporaries();
  const std::lock_guard lock(known.mutex);
  for (const fs::path& path : *known.paths)  // again where another thread put something in or took it away meanwhile
    while (!remove_tree(path) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

RunningProgram::RunningProgram() {
  ++running;
}

RunningProgram::~RunningProgram() {
  --running;
}

Result<fs::path> create_temporary(const std::function<Result<fs::path>()>& create) {
  Temporaries& known = temporaries();
  const std::lock_guard lock(known.mutex);  // end_work() says that it ends before it looks
  if (work_has_ended()) return fail(ErrorCode::cancelled, "this process is about to end");
  Result<fs::path> path = create();
  if (path) known.paths->insert(*path);
  return path;
}

void forget_temporary(const fs::path& path) {
  Temporaries& known = temporaries();
  const std::lock_guard lock(known.mutex);
  known.paths->erase(path);
}

}  // namespace tilesmith
