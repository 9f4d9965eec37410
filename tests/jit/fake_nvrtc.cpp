// A compiler that compiles nothing: NVRTC's functions with scripted answers, so that finding it and its failures can be
// tested where there is none. FAKE_NVRTC_VERSION, FAKE_NVRTC_RESULT and FAKE_NVRTC_CUBIN (give
// one) change what it says.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
const char kLog[] = "the fake compiler's words";
const char kCubin[] =
    "\x7f"
    "ELF with .text.k";
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
EXPORT int nvrtcCompileProgram(void*, int count, const char* const* options) {
  // As versions before 12.9 do.
  for (int i = 0; i < count; ++i)
    if (std::strcmp(options[i], "--no-cache") == 0) return 5;
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
  *size = std::getenv("FAKE_NVRTC_CUBIN") != nullptr ? sizeof kCubin : 0;
  return 0;
}
EXPORT int nvrtcGetCUBIN(void*, char* cubin) {
  if (std::getenv("FAKE_NVRTC_CUBIN") != nullptr) std::memcpy(cubin, kCubin, sizeof kCubin);
  return 0;
}
