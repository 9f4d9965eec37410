// Tests have a short form, which `make test` runs within a quarter of an hour on two processors, and a long one: more
// random problems, and every instance where the short form takes some of a kind. `make test-thorough` runs the long
// ones.
#pragma once

#include <cstdlib>
#include <vector>

namespace tilesmith::testing {

/// Whether the long forms are asked for: TILESMITH_TEST_THOROUGH is set and not empty.
inline bool thorough() {
  const char* const asked = std::getenv("TILESMITH_TEST_THOROUGH");
  return asked != nullptr && *asked != '\0';
}

/// Every `step`-th of them, the first one with them; in the long form all.
template <class T>
std::vector<T> some(const std::vector<T>& all, std::size_t step) {
  if (thorough()) return all;
  std::vector<T> taken;
  for (std::size_t i = 0; i < all.size(); i += step) taken.push_back(all[i]);
  return taken;
}

}  // namespace tilesmith::testing
