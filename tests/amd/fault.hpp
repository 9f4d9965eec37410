// What ends an emulated run: a program that does what no program may, or something that the interpreter does not know.
// It is thrown where it is found; run() (machine.hpp) adds the instruction and gives it back as a value.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tilesmith::amdgpu {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Values>
[[noreturn]] void fault(fmt::format_string<Values...> text, Values&&... values) {
  throw Fault(fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace tilesmith::amdgpu
