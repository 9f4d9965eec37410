// The shared library is made of the stations' object files; this one says which version they are.
#include "tilesmith/export.hpp"

extern "C" TILESMITH_API const char* tilesmith_version();
extern "C" const char* tilesmith_version() {
  return TILESMITH_VERSION;
}
