// What a CPU attention-forward kernel is called with. The meaning is that of contract/attention.h.
#pragma once

#include "../../contract/attention.h"

struct TsAttentionArgs : TsAttentionCall {
  void* workspace;   // workspace_bytes of it, 64-byte aligned, shared by all tasks of all stages
  long long splits;  // parts into which kernels that split the keys cut them; 1 or more
};
