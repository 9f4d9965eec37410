// Convolution names:
//   grouped_conv_<direction>_<type>_nhwgc_<n>d_<pipeline>_<epilogue>_<scheduler>_<tile>_<waves>_<fragment>
//   [_vec<a>_<b>_<c>][_wg<n>][_gm<n>][_dsb][_2stage][_<specialisation>][_explicit_gemm][_streamk_<reduction>[_persistent]]
//   [_large_tensor][_pad<mnk>]
//   grouped_conv_fwd_depthwise_<type>_ngchw_2d_<tile>_f<filter>_s<stride>_p<padding>_nb<images>_sub<subtile>_vec<in>_<out>
// Vectors of 4, 8, 8 and padding in all of m, n, k are the defaults a name leaves out. The layout is nhwgc in one to
// three dimensions alike.
#include "vocabulary/names/ck_text.hpp"

namespace tilesmith::ck {
namespace {

constexpr auto kDirection = tokens<ConvDirection>("grouped_conv_");
constexpr auto kType = tokens<DataType>("_");
constexpr auto kPipeline = tokens<Pipeline>("_");
constexpr auto kEpilogue = tokens<Epilogue>("_");
constexpr auto kScheduler = tokens<Scheduler>("_");
constexpr std::array<std::uint8_t, 3> kDefaultVector = {4, 8, 8};
constexpr std::string_view kLayout = "_nhwgc_", kDepthwiseLayout = "_ngchw_2d_";

template <class E>
std::size_t index(E value) {
  return static_cast<std::size_t>(value);
}

void put_pair(Writer& w, std::string_view label, const std::array<std::uint8_t, 2>& pair) {
  w.put(label);
  w.number(pair[0]);
  w.put('x');
  w.number(pair[1]);
}

char* write_depthwise(const ConvSignature& s, const Algorithm& a, Writer& w) {
  w.put("_depthwise");
  w.put(kType[index(s.data_type)]);
  w.put(kDepthwiseLayout);
  w.numbers(a.tile, 2);
  w.put("_f");
  w.number(s.filter[0]);
  put_pair(w, "_s", s.stride);
  put_pair(w, "_p", s.padding);
  w.put("_nb");
  w.number(a.images);
  put_pair(w, "_sub", a.subtile);
  w.put("_vec");
  w.number(a.vector[0]);
  w.put('_');
  w.number(a.vector[2]);
  return w.end();
}

Result<KernelConfig> parse_depthwise(Reader r, KernelConfig config) {
  auto& s = std::get<ConvSignature>(config.signature);
  Algorithm& a = config.algorithm;
  s.depthwise = true;
  a.pipeline = Pipeline::depthwise;
  if (!r.take_enum(s.data_type)) return r.expected("a data type such as fp16");
  if (!r.take(kDepthwiseLayout.substr(1))) return r.expected("ngchw_2d_");
  if (!r.take_numbers(a.tile, 2)) return r.expected("two tile figures joined by x");
  if (!r.take("_f") || !r.take_number(s.filter[0])) return r.expected("_f and the filter's size");
  s.filter[1] = s.filter[0];
  if (!r.take("_s") || !r.take_numbers(s.stride, 2)) return r.expected("_s and two strides");
  if (!r.take("_p") || !r.take_numbers(s.padding, 2)) return r.expected("_p and two paddings");
  if (!r.take("_nb") || !r.take_number(a.images)) return r.expected("_nb and the images of a block");
  if (!r.take("_sub") || !r.take_numbers(a.subtile, 2)) return r.expected("_sub and two figures");
  if (!r.take("_vec") || !r.take_number(a.vector[0]) || !r.take("_") || !r.take_number(a.vector[2]))
    return r.expected("_vec and two figures");
  if (!r.done()) return r.expected("the end of the name");
  return config;
}

}  // namespace

char* write_conv_name(const KernelConfig& config, char* out) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  Writer w(out);
  w.put(kDirection[index(s.direction)]);
  if (s.depthwise) return write_depthwise(s, a, w);
  w.put(kType[index(s.data_type)]);
  w.put(kLayout);
  w.number(s.spatial_dims);
  w.put('d');
  w.put(kPipeline[index(a.pipeline)]);
  w.put(kEpilogue[index(a.epilogue)]);
  w.put(kScheduler[index(a.scheduler)]);
  w.put('_');
  w.numbers(a.tile, 3);
  w.put('_');
  w.numbers(a.wave, 3);
  w.put('_');
  w.numbers(a.warp, 3);
  if (a.vector != kDefaultVector) {
    w.put("_vec");
    for (std::size_t i = 0; i < 3; ++i) {
      if (i > 0) w.put('_');
      w.number(a.vector[i]);
    }
  }
  if (a.wave_groups != 1) {
    w.put("_wg");
    w.number(a.wave_groups);
  }
  if (a.groups_merged != 1) {
    w.put("_gm");
    w.number(a.groups_merged);
  }
  if (a.double_buffer) w.put("_dsb");
  if (s.two_stage) w.put("_2stage");
  if (s.specialization != ConvSpecialization::none) {
    w.put('_');
    w.put(name_of(s.specialization));
  }
  if (a.explicit_gemm) w.put("_explicit_gemm");
  if (s.stream_k_reduction != StreamKReduction::none) {
    w.put("_streamk_");
    w.put(name_of(s.stream_k_reduction));
    if (a.persistent) w.put("_persistent");
  }
  if (s.large_tensor) w.put("_large_tensor");
  if (a.pad[0] == 0 || a.pad[1] == 0 || a.pad[2] == 0) {
    w.put("_pad");
    for (std::size_t i = 0; i < 3; ++i) w.put(static_cast<char>('0' + a.pad[i]));
  }
  return w.end();
}

Result<KernelConfig> parse_conv_name(std::string_view name) {
  Reader r(name);
  KernelConfig config{.origin = Origin::ck};
  auto& s = config.signature.emplace<ConvSignature>();
  Algorithm& a = config.algorithm;
  if (!r.take(kConvPrefix)) return r.expected("grouped_conv_");
  if (!r.take_enum(s.direction)) return r.expected("fwd, bwd_data or bwd_weight");
  if (r.take("depthwise_")) return parse_depthwise(r, config);
  if (!r.take_enum(s.data_type)) return r.expected("a data type such as fp16");
  if (!r.take(kLayout.substr(1))) return r.expected("nhwgc_");
  if (!r.take_number(s.spatial_dims) || !r.take("d_")) return r.expected("1d, 2d or 3d");
  if (!r.take_enum(a.pipeline)) return r.expected("a pipeline such as compv3");
  if (!r.take_enum(a.epilogue)) return r.expected("an epilogue such as cshuffle");
  if (!r.take_enum(a.scheduler)) return r.expected("a scheduler such as intrawave");
  if (!r.take_numbers(a.tile, 3) || !r.take("_")) return r.expected("three tile figures joined by x");
  if (!r.take_numbers(a.wave, 3) || !r.take("_")) return r.expected("three wave counts joined by x");
  if (!r.take_numbers(a.warp, 3)) return r.expected("three fragment figures joined by x");
  a.vector = kDefaultVector;
  if (r.take("_vec") && !r.take_numbers(a.vector, 3, "_")) return r.expected("_vec and three figures");
  if (r.take("_wg") && !r.take_number(a.wave_groups)) return r.expected("_wg and a number");
  if (r.take("_gm") && !r.take_number(a.groups_merged)) return r.expected("_gm and a number");
  a.double_buffer = r.take("_dsb");
  s.two_stage = r.take("_2stage");
  for (const auto& entry : EnumTable<ConvSpecialization>::kNames) {
    Reader attempt = r;
    if (entry.value != ConvSpecialization::none && attempt.take("_") && attempt.take(entry.name) &&
        (attempt.done() || attempt.rest()[0] == '_')) {
      s.specialization = entry.value;
      r = attempt;
      break;
    }
  }
  a.explicit_gemm = r.take("_explicit_gemm");
  if (r.take("_streamk_")) {
    if (r.take("tree"))
      s.stream_k_reduction = StreamKReduction::tree;
    else if (r.take("linear"))
      s.stream_k_reduction = StreamKReduction::linear;
    else
      return r.expected("tree or linear");
    a.persistent = r.take("_persistent");
  }
  s.large_tensor = r.take("_large_tensor");
  a.pad = {1, 1, 1, 0};
  if (r.take("_pad")) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (r.take("0"))
        a.pad[i] = 0;
      else if (!r.take("1"))
        return r.expected("three digits 0 or 1");
    }
  }
  if (!r.done()) return r.expected("the end of the name, or a feature in the grammar's order");
  return config;
}

}  // namespace tilesmith::ck
