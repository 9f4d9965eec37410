// A compiler that compiles nothing: NVRTC's functions with scripted answers, so that finding it and its failures can be
// tested where there is none. FAKE_NVRTC_VERSION and FAKE_NVRTC_RESULT change what it says.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
const char kLog[] = "the fake compiler's words";
int program;
}  // namespace

EXPORT int nvrtcVersion(int* major, int* minor) {
  const char* text = std::getenv("FAKE_NVRTC_VERSION");
  return std::sscanf(text != nullptr ? text : "12.3", "%d.%d", major, minor) == 2 ? 0 : 11;
}
EXPORT const char* nvrtcGetErrorString(int code) {
  return code == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_OTHER";
}
EXPORT int nvrtcCreateProgram(void** handle, const char*, const char*, int, const char* const*, const char* const*) {
  *handle = &program;
  return 0;
}
EXPORT int nvrtcDestroyProgram(void** handle) {
  *handle = nullptr;
  return 0;
}
EXPORT int nvrtcCompileProgram(void*, int, const char* const*) {
  const char* text = std::getenv("FAKE_NVRTC_RESULT");
  return text != nullptr ? std::atoi(text) : 0;
}
EXPORT int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  *size = sizeof kLog;
  return 0;
}
EXPORT int nvrtcGetProgramLog(void*, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return 0;
}
EXPORT int nvrtcGetCUBINSize(void*, std::size_t* size) {
  *size = 0;
  return 0;
}
EXPORT int nvrtcGetCUBIN(void*, char*) {
  return 0;
}
