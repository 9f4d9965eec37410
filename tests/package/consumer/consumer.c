/* What a C user of the installed library writes. */
#include <stdio.h>

#include <tilesmith.h>

static float q[2 * 5 * 64], k[9 * 64], v[9 * 64], o[2 * 5 * 64];

int main(void) {
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  tilesmith_error error = TILESMITH_ERROR_INIT;
  int i;
  for (i = 0; i < 9 * 64; ++i) v[i] = 3.0f;
  call.data_type = TILESMITH_FP32;
  call.heads_q = 2;
  call.seqlen_q = 5;
  call.seqlen_k = 9;
  call.head_dim_qk = call.head_dim_v = 64;
  tilesmith_attention_dense(&call, TILESMITH_BHSD);
  call.q = q;
  call.k = k;
  call.v = v;
  call.o = o;
  if (tilesmith_attention_forward(NULL, &call) != TILESMITH_SUCCESS) {
    tilesmith_last_error(&error);
    printf("%s (%s)\n", error.message, error.hint);
    return 1;
  }
  for (i = 0; i < 2 * 5 * 64; ++i) /* every value row is 3, and so is every weighted mean of them */
    if (o[i] < 2.9999f || o[i] > 3.0001f) return 1;
  return 0;
}
