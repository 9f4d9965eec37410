// Stores of what may not be there: one instruction, where a branch would keep the next stores back.
#pragma once

#include "../common/common.cuh"

namespace ts::conv {

TS_DEVICE void store_16_bytes_if(bool there, void* p, const u32 (&words)[4]) {
  asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %5, 0;\n@there st.global.v4.b32 [%0], {%1, %2, %3, %4};\n}" ::"l"(p),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(static_cast<int>(there))
               : "memory");
}
TS_DEVICE void store_4_bytes_if(bool there, void* p, u32 word) {
  asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %2, 0;\n@there st.global.b32 [%0], %1;\n}" ::"l"(p), "r"(word),
               "r"(static_cast<int>(there))
               : "memory");
}
TS_DEVICE void store_8_bytes_if(bool there, void* p, u32 first, u32 second) {
  asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %3, 0;\n@there st.global.v2.b32 [%0], {%1, %2};\n}" ::"l"(p),
               "r"(first), "r"(second), "r"(static_cast<int>(there))
               : "memory");
}

}  // namespace ts::conv
