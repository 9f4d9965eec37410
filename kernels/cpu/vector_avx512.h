// AVX-512: sixteen lanes, and the instructions that the compilers' vector extensions cannot express.
constexpr int kLanes = 16;
constexpr int kAccumulators = 24;  // of the 32 vector registers; the rest hold operands
#define TS_LANES TS_LANES_16
