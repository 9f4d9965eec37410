// Vector floating-point arithmetic: VOP1, VOP2, VOP3. Sums, products and fused products are rounded once, to nearest
// even; denormals are kept. The transcendental functions are within 1 unit in the last place on a chip and take and
// give denormals as zeros; here they are rounded (CDNA 3 ISA 12.7, RDNA 3 ISA 16.7).
#include <cmath>
#include <limits>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}
/// A function of float64 as an approximation of float32 has it.
template <auto kFunction>
constexpr auto kApproximate =
    [](float x) { return flushed(static_cast<float>(kFunction(static_cast<double>(flushed(x))))); };
template <auto kFunction>
constexpr auto kOfHalf = [](F16 x) { return to_f16(kFunction(static_cast<double>(value_of(x)))); };

double exp2_of(double x) {
  return std::exp2(x);
}
double log2_of(double x) {
  return std::log2(x);
}
double reciprocal(double x) {
  return 1 / x;
}
double square_root(double x) {
  return std::sqrt(x);
}
double reciprocal_root(double x) {
  return 1 / std::sqrt(x);
}
double sine(double turns) {
  return std::sin(turns * 6.283185307179586);
}
double cosine(double turns) {
  return std::cos(turns * 6.283185307179586);
}

/// A signalling NaN makes a minimum or maximum a NaN: MODE.IEEE, which kernels have.
bool signals(float x) {
  return x != x && (std::bit_cast<u32>(x) & 0x400000) == 0;
}
bool signals(double) {
  return false;
}
/// The value that is no NaN, else the smaller; -0 is smaller than 0.
template <class T>
T minimum(T a, T b) {
  if (signals(a) || signals(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a != a) return b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T maximum(T a, T b) {
  if (signals(a) || signals(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a != a) return b;
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
float middle(float a, float b, float c) {
  if (a != a || b != b || c != c) return minimum(minimum(a, b), c);
  return maximum(minimum(a, b), minimum(maximum(a, b), c));
}
// V_MINIMUM and V_MAXIMUM of RDNA 4: a NaN wins.
float minimum_nan(float a, float b) {
  return a != a ? a : b != b ? b : minimum(a, b);
}
float maximum_nan(float a, float b) {
  return a != a ? a : b != b ? b : maximum(a, b);
}

double difference(double a, double b) {
  return a - b;
}
double difference_reversed(double a, double b) {
  return b - a;
}
F16 fused(F16 a, F16 b, F16 c) {
  // The product of two fp16 is exact in float64.
  return to_f16(static_cast<double>(value_of(a)) * value_of(b) + value_of(c));
}

/// Operands: d, a, k, c or d, a, b, k: the constant of the instruction is one of fma's factors or its term.
constexpr auto kFma = [](float a, float b, float c) { return std::fma(a, b, c); };

/// A source of the mixed fused products: float32, or a half of a register as fp16 (CDNA 3 ISA 12.9, V_FMA_MIX).
class MixedSource {
 public:
  MixedSource(const Wave& wave, const Instruction& in, int position)
      : words_(wave, in, position, 0), operand_(in.at(position)) {
    half_ = (in.modifiers.op_sel_hi >> (position - 1) & 1) != 0;
    shift_ = (in.modifiers.op_sel >> (position - 1) & 1) != 0 ? 16 : 0;
  }
  float operator[](int lane) const {
    const u32 word = words_[lane];
    float value = half_ ? value_of(F16{static_cast<u16>(word >> shift_)}) : std::bit_cast<float>(word);
    if (operand_.absolute) value = std::fabs(value);
    return operand_.negate ? -value : value;
  }

 private:
  Words words_;
  const Operand& operand_;
  bool half_;
  int shift_;
};

enum class MixedResult { word, low_half, high_half };
template <MixedResult kResult>
void fused_mixed(Wave& wave, const Instruction& in) {
  const MixedSource a(wave, in, 1), b(wave, in, 2), c(wave, in, 3);
  const Row& old = wave.row(in.at(0).index);
  Row results;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto at = static_cast<std::size_t>(lane);
    const auto exact = [&] { return std::fma(static_cast<double>(a[lane]), static_cast<double>(b[lane]), c[lane]); };
    if constexpr (kResult == MixedResult::word) {
      results[at] = result_bits(modified(std::fma(a[lane], b[lane], c[lane]), in.modifiers));
    } else {
      F16 half = to_f16(exact());
      if (in.modifiers.clamp) half = to_f16(modified(value_of(half), in.modifiers));
      results[at] = kResult == MixedResult::low_half ? (old[at] & 0xffff0000) | half.bits
                                                     : (old[at] & 0xffff) | static_cast<u32>(half.bits) << 16;
    }
  }
  wave.write(in.at(0).index, results, written_lanes(wave, in));
}

float ldexp_of(float a, i32 b) {
  return std::ldexp(a, b);
}

/// The transcendental functions of one value in a scalar register (RDNA 4 ISA, V_S_RCP_F32 and others).
template <auto kFunction>
void of_scalar(Wave& wave, const Instruction& in) {
  const Source<float> value(wave, in, 1);
  wave.set_scalar(in.at(0).index, result_bits(kFunction(value[0])));
}

constexpr Operation kOperations[] = {
    {"v_add_f32", each_lane([](float a, float b) { return a + b; })},
    {"v_sub_f32", each_lane([](float a, float b) { return a - b; })},
    {"v_subrev_f32", each_lane([](float a, float b) { return b - a; })},
    {"v_mul_f32", each_lane([](float a, float b) { return a * b; })},
    {"v_mul_legacy_f32", each_lane([](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; })},
    {"v_mul_dx9_zero_f32", each_lane([](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; })},
    {"v_fma_f32", each_lane<kFma>},
    {"v_fmac_f32", each_lane<kFma, true>},
    {"v_fmaak_f32", each_lane<kFma>},
    {"v_fmamk_f32", each_lane<kFma>},
    {"v_min_f32", each_lane<minimum<float>>},
    {"v_max_f32", each_lane<maximum<float>>},
    {"v_min_num_f32", each_lane<minimum<float>>},
    {"v_max_num_f32", each_lane<maximum<float>>},
    {"v_minimum_f32", each_lane<minimum_nan>},
    {"v_maximum_f32", each_lane<maximum_nan>},
    {"v_min3_f32", each_lane([](float a, float b, float c) { return minimum(minimum(a, b), c); })},
    {"v_max3_f32", each_lane([](float a, float b, float c) { return maximum(maximum(a, b), c); })},
    {"v_min3_num_f32", each_lane([](float a, float b, float c) { return minimum(minimum(a, b), c); })},
    {"v_max3_num_f32", each_lane([](float a, float b, float c) { return maximum(maximum(a, b), c); })},
    {"v_minimum3_f32", each_lane([](float a, float b, float c) { return minimum_nan(minimum_nan(a, b), c); })},
    {"v_maximum3_f32", each_lane([](float a, float b, float c) { return maximum_nan(maximum_nan(a, b), c); })},
    {"v_minmax_f32", each_lane([](float a, float b, float c) { return maximum(minimum(a, b), c); })},
    {"v_maxmin_f32", each_lane([](float a, float b, float c) { return minimum(maximum(a, b), c); })},
    {"v_med3_f32", each_lane<middle>},
    {"v_med3_num_f32", each_lane<middle>},
    {"v_ldexp_f32", each_lane<ldexp_of>},
    {"v_floor_f32", each_lane([](float a) { return std::floor(a); })},
    {"v_ceil_f32", each_lane([](float a) { return std::ceil(a); })},
    {"v_trunc_f32", each_lane([](float a) { return std::trunc(a); })},
    {"v_rndne_f32", each_lane([](float a) { return std::nearbyint(a); })},
    {"v_fract_f32", each_lane([](float a) { return std::fmin(a - std::floor(a), 0x1.fffffep-1f); })},
    {"v_exp_f32", each_lane<kApproximate<exp2_of>>},
    {"v_log_f32", each_lane<kApproximate<log2_of>>},
    {"v_rcp_f32", each_lane<kApproximate<reciprocal>>},
    {"v_rcp_iflag_f32", each_lane<kApproximate<reciprocal>>},
    {"v_sqrt_f32", each_lane<kApproximate<square_root>>},
    {"v_rsq_f32", each_lane<kApproximate<reciprocal_root>>},
    {"v_sin_f32", each_lane<kApproximate<sine>>},
    {"v_cos_f32", each_lane<kApproximate<cosine>>},
    {"v_s_exp_f32", of_scalar<kApproximate<exp2_of>>},
    {"v_s_log_f32", of_scalar<kApproximate<log2_of>>},
    {"v_s_rcp_f32", of_scalar<kApproximate<reciprocal>>},
    {"v_s_sqrt_f32", of_scalar<kApproximate<square_root>>},
    {"v_s_rsq_f32", of_scalar<kApproximate<reciprocal_root>>},
    // float64
    {"v_add_f64", each_lane([](double a, double b) { return a + b; })},
    {"v_mul_f64", each_lane([](double a, double b) { return a * b; })},
    {"v_fma_f64", each_lane([](double a, double b, double c) { return std::fma(a, b, c); })},
    {"v_min_f64", each_lane<minimum<double>>},
    {"v_max_f64", each_lane<maximum<double>>},
    // fp16
    {"v_add_f16", each_lane<kHalves<sum>>},
    {"v_sub_f16", each_lane<kHalves<difference>>},
    {"v_subrev_f16", each_lane<kHalves<difference_reversed>>},
    {"v_mul_f16", each_lane<kHalves<product>>},
    {"v_min_f16", each_lane<kHalves<minimum<double>>>},
    {"v_max_f16", each_lane<kHalves<maximum<double>>>},
    {"v_min_num_f16", each_lane<kHalves<minimum<double>>>},
    {"v_max_num_f16", each_lane<kHalves<maximum<double>>>},
    {"v_fma_f16", each_lane<fused>, Operation::keeps_high},
    {"v_fmac_f16", each_lane<fused, true>, Operation::keeps_high},
    {"v_exp_f16", each_lane<kOfHalf<exp2_of>>},
    {"v_log_f16", each_lane<kOfHalf<log2_of>>},
    {"v_rcp_f16", each_lane<kOfHalf<reciprocal>>},
    {"v_sqrt_f16", each_lane<kOfHalf<square_root>>},
    {"v_rsq_f16", each_lane<kOfHalf<reciprocal_root>>},
    {"v_fma_mix_f32", fused_mixed<MixedResult::word>},
    {"v_fma_mixlo_f16", fused_mixed<MixedResult::low_half>},
    {"v_fma_mixhi_f16", fused_mixed<MixedResult::high_half>},
};

}  // namespace

std::span<const Operation> float_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
