#include "capi/python/python.hpp"

#include <dlfcn.h>

#include <optional>

namespace tilesmith::capi::python {
namespace {

template <class Symbol>
bool is_in_process(const char* name, Symbol*& symbol) {
  symbol = reinterpret_cast<Symbol*>(::dlsym(RTLD_DEFAULT, name));
  return symbol != nullptr;
}

template <class Function>
bool is_in_process(const char* name, Waits<Function>& waits) {
  Function* function = nullptr;
  const bool found = is_in_process(name, function);
  waits = function;
  return found;
}

std::optional<Python> load() {
  Python x{};
  const bool found =
      is_in_process("_Py_NoneStruct", x.none) && is_in_process("_Py_TrueStruct", x.yes) &&
      is_in_process("_Py_NotImplementedStruct", x.not_implemented) && is_in_process("PyFloat_Type", x.of_float) &&
      is_in_process("PyLong_Type", x.of_int) && is_in_process("PyUnicode_Type", x.of_text) &&
      is_in_process("PyTuple_Type", x.of_tuple) && is_in_process("Py_IncRef", x.add_reference) &&
      is_in_process("Py_DecRef", x.drop_reference) && is_in_process("PyTuple_New", x.new_tuple) &&
      is_in_process("PyTuple_SetItem", x.set_item) && is_in_process("PyTuple_GetItem", x.item) &&
      is_in_process("PyTuple_Size", x.size) && is_in_process("PyObject_Call", x.call) &&
      is_in_process("PyObject_CallNoArgs", x.call_without) && is_in_process("PyObject_GetAttr", x.attribute) &&
      is_in_process("PyLong_FromLongLong", x.new_integer) && is_in_process("PyLong_AsLongLong", x.integer) &&
      is_in_process("PyFloat_AsDouble", x.number) && is_in_process("PyModule_GetDict", x.variables) &&
      is_in_process("PyDict_GetItemWithError", x.variable) && is_in_process("PyBytes_AsString", x.bytes) &&
      is_in_process("PyUnicode_InternInPlace", x.intern) && is_in_process("PyErr_Occurred", x.error) &&
      is_in_process("PyErr_Clear", x.clear_error) && is_in_process("PyEval_SaveThread", x.release_lock) &&
      is_in_process("PyEval_RestoreThread", x.take_lock) && is_in_process("PyCFunction_NewEx", x.new_function) &&
      is_in_process("PyCapsule_New", x.new_capsule) && is_in_process("PyCapsule_GetPointer", x.in_capsule);
  return found ? std::optional(x) : std::nullopt;
}

}  // namespace

const Python* find() {
  static const std::optional<Python> here = load();
  return here ? &*here : nullptr;
}

}  // namespace tilesmith::capi::python
