// What a tensor library is asked in each call, beside what its tensors look like. A function of Python takes ten times
// as long to answer as the one of C++ behind it, which has no arguments and is found in the process by its name.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <optional>

#include "capi/python/python.hpp"

namespace tilesmith::capi::python {

/// As _repeated.py counts them.
enum class Answers : char { integer, long_integer, truth, reference };

class Question {
 public:
  Question() = default;
  /// Of a library that is loaded; without it, or without the symbol, Python is asked.
  Question(Object* python_function, Answers answers, const char* library, const char* symbol)
      : python_function_(python_function), answers_(answers) {
    if (void* const loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
      function_ = ::dlsym(loaded, symbol);
      ::dlclose(loaded);  // Python keeps it
    }
  }

  [[nodiscard]] Object* python_function() const { return python_function_; }

  /// Nothing where Python has to be asked.
  [[nodiscard]] std::optional<std::int64_t> answer() const {
    if (function_ == nullptr) return std::nullopt;
    switch (answers_) {
      case Answers::integer:
        return reinterpret_cast<int (*)()>(function_)();
      case Answers::long_integer:
        return reinterpret_cast<std::int64_t (*)()>(function_)();
      case Answers::truth:
        return reinterpret_cast<bool (*)()>(function_)() ? 1 : 0;
      case Answers::reference:  // to a smart pointer, whose first word is the pointer
        return reinterpret_cast<const std::int64_t& (*)()>(function_)();
    }
    return std::nullopt;
  }

 private:
  Object* python_function_ = nullptr;  // borrowed
  void* function_ = nullptr;
  Answers answers_ = Answers::integer;
};

}  // namespace tilesmith::capi::python
