// What a CPU attention-backward kernel is called with. The meaning is that of contract/attention_backward.h.
#pragma once

#include "../../contract/attention_backward.h"
#include "../attention/abi.h"

struct TsAttentionBackwardArgs : TsAttentionArgs {
  TsAttentionGradients grad;
};
