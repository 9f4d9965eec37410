#include "tilesmith.h"

const char* tilesmith_version(void) {
  return TILESMITH_VERSION;
}

int32_t tilesmith_abi_version(void) {
  return TILESMITH_ABI_VERSION;
}
