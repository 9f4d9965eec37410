// CPython as a table of functions, found in the process that loaded the library: the library is linked with no Python,
// and one build serves every version. All of these belong to the stable ABI:
// https://docs.python.org/3/c-api/stable.html
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace tilesmith::capi::python {

struct Object;
struct Head {  // what every object begins with, where there is a global lock
  std::intptr_t references;
  void* type;
};
[[nodiscard]] inline const void* type_of(const Object* object) {
  return reinterpret_cast<const Head*>(object)->type;
}

struct ThreadState;
struct Method {  // PyMethodDef
  const char* name;
  Object* (*function)(Object* self, Object* const* arguments, std::intptr_t count);
  int flags;
  const char* text;
};
constexpr int kFastCall = 0x0080;  // METH_FASTCALL: arguments by position

/// Up to 3.13, Python ends a thread (pthread_exit) that wants the lock of an interpreter at its end: a daemon thread's
/// references would be dropped on the way out, without the lock. Whoever has one of these on the way waits for the end
/// of the process instead, as threads do since 3.14: https://github.com/python/cpython/issues/87135
class WaitsWhenEnded {
 public:
  WaitsWhenEnded() = default;
  WaitsWhenEnded(const WaitsWhenEnded&) = delete;
  WaitsWhenEnded& operator=(const WaitsWhenEnded&) = delete;
  ~WaitsWhenEnded() {
    while (!returned_ && std::uncaught_exceptions() == exceptions_) ::pause();
  }
  void returned() { returned_ = true; }

 private:
  bool returned_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

/// A function that may wait for Python's lock.
template <class Function>
class Waits;
template <class Result, class... Arguments>
class Waits<Result(Arguments...)> {
 public:
  using Function = Result(Arguments...);
  Waits& operator=(Function* function) {
    function_ = function;
    return *this;
  }
  Result operator()(Arguments... arguments) const {
    WaitsWhenEnded thread;
    if constexpr (std::is_void_v<Result>) {
      function_(arguments...);
      thread.returned();
    } else {
      const Result result = function_(arguments...);
      thread.returned();
      return result;
    }
  }

 private:
  Function* function_ = nullptr;
};

struct Python {
  Object *none, *yes, *not_implemented;
  const void *of_float, *of_int, *of_text, *of_tuple;

  void (*add_reference)(Object*);
  Waits<void(Object*)> drop_reference;
  Object* (*new_tuple)(std::intptr_t);
  int (*set_item)(Object* tuple, std::intptr_t, Object* stolen);
  Object* (*item)(Object* tuple, std::intptr_t);  // borrowed
  std::intptr_t (*size)(Object* tuple);
  Waits<Object*(Object* callable, Object* arguments, Object* named)> call;
  Waits<Object*(Object* callable)> call_without;
  Waits<Object*(Object*, Object* name)> attribute;
  Object* (*variables)(Object* module);                  // a dictionary, borrowed
  Object* (*variable)(Object* dictionary, Object* key);  // borrowed; null, with or without an error
  Object* (*new_integer)(long long);
  long long (*integer)(Object*);
  double (*number)(Object*);
  char* (*bytes)(Object*);
  void (*intern)(Object**);  // in the place of a text, the one of all equal ones
  Object* (*error)();        // borrowed
  void (*clear_error)();
  ThreadState* (*release_lock)();
  Waits<void(ThreadState*)> take_lock;
  Object* (*new_function)(Method*, Object* self, Object* module);
  Object* (*new_capsule)(void*, const char* name, void (*destroy)(Object*));
  void* (*in_capsule)(Object*, const char* name);
};

/// Of this process; null where there is none, or not all of it.
[[nodiscard]] const Python* find();

}  // namespace tilesmith::capi::python
