// What the library said of a call.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tilesmith.h"

namespace tilesmith::capi {

/// "" for a call that succeeded, else the message of the calling thread's last failure.
inline std::string message_of(tilesmith_status status) {
  if (status == TILESMITH_SUCCESS) return "";
  tilesmith_error error = TILESMITH_ERROR_INIT;
  EXPECT_EQ(tilesmith_last_error(&error), TILESMITH_SUCCESS);
  EXPECT_EQ(error.code, status);
  return error.message;
}

}  // namespace tilesmith::capi
