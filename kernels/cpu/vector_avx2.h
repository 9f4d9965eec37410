// AVX2 with FMA and F16C: eight lanes.
constexpr int kLanes = 8;
constexpr int kAccumulators = 12;  // of the 16 vector registers; the rest hold operands
#define TS_LANES TS_LANES_8
