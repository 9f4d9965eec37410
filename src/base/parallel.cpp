#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace tilesmith {

void parallel_for(std::size_t count, unsigned threads, FunctionRef<void(std::size_t)> body) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t index = next++; index < count; index = next++) body(index);
  };
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < std::min<std::size_t>(threads, count); ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads to be had: those that are there do the rest
  }
  work();
}

}  // namespace tilesmith
