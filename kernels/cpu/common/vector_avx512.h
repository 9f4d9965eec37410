// AVX-512: sixteen lanes, and the instructions that the compilers' vector extensions cannot express.
constexpr int kLanes = 16;
constexpr int kAccumulators = 24;  // of the 32 vector registers; the rest hold operands
#define TS_LANES TS_LANES_16
#define TS_DOUBLE_LANES TS_LANES_32
#define TS_LANE_NUMBERS \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
