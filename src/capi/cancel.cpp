#include "base/cancel.hpp"

#include "tilesmith.h"

void tilesmith_cancel_waits(int64_t thread) {
  tilesmith::cancel_waits(thread);
}
