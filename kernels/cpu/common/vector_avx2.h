// AVX2 with FMA and F16C: eight lanes.
constexpr int kLanes = 8;
constexpr int kAccumulators = 12;  // of the 16 vector registers; the rest hold operands
#define TS_LANES TS_LANES_8
#define TS_DOUBLE_LANES TS_LANES_16
#define TS_LANE_NUMBERS \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
