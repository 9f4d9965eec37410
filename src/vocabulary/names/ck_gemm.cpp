// GEMM names:
//   gemm_<type>_<layouts of A, B, C[,
//   D]>_<pipeline>_<epilogue>_<scheduler>_<PadM>_<PadN>_<PadK>_<Persistent>_<tile>_<waves>_<fragment> then
//   _preshuffle[_permuteN], _multid_<Op>_d<n>, _streamk[_linear|_tree] or _grouped
#include "vocabulary/names/ck_text.hpp"

namespace tilesmith::ck {
namespace {

constexpr auto kType = tokens<DataType>("gemm_");
constexpr auto kPipeline = tokens<Pipeline>("_");
constexpr auto kEpilogue = tokens<Epilogue>("_");
constexpr auto kScheduler = tokens<Scheduler>("_");
constexpr auto kOperation = tokens<ElementwiseKind>("_multid_");
constexpr Token kFlag[2] = {{"_False", ""}, {"_True", ""}};

template <class E>
std::size_t index(E value) {
  return static_cast<std::size_t>(value);
}
char letter(MatrixOrder order) {
  return name_of(order)[0];
}

bool take_layout(Reader& r, MatrixOrder& order) {
  if (r.take("r")) {
    order = MatrixOrder::row;
    return true;
  }
  order = MatrixOrder::column;
  return r.take("c");
}

}  // namespace

char* write_gemm_name(const KernelConfig& config, char* out) {
  const auto& s = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  Writer w(out);
  w.put(kType[index(s.a)]);
  w.put('_');
  w.put(letter(s.layout_a));
  w.put(letter(s.layout_b));
  w.put(letter(s.layout_c));
  if (s.family == GemmFamily::multi_d) w.put(letter(s.layout_d));
  w.put(kPipeline[index(a.pipeline)]);
  w.put(kEpilogue[index(a.epilogue)]);
  w.put(kScheduler[index(a.scheduler)]);
  for (std::size_t i = 0; i < 3; ++i) w.put(kFlag[a.pad[i] != 0]);
  w.put(kFlag[a.persistent]);
  w.put('_');
  w.numbers(a.tile, 3);
  w.put('_');
  w.numbers(a.wave, 3);
  w.put('_');
  w.numbers(a.warp, 3);
  switch (s.family) {
    case GemmFamily::preshuffle:
      w.put(a.epilogue == Epilogue::permute_n ? "_preshuffle_permuteN" : "_preshuffle");
      break;
    case GemmFamily::multi_d:
      w.put(kOperation[index(s.elementwise)]);
      w.put("_d");
      w.number(s.num_d);
      break;
    case GemmFamily::stream_k:
      w.put("_streamk");
      if (s.stream_k_reduction > StreamKReduction::atomic) {
        w.put('_');
        w.put(name_of(s.stream_k_reduction));
      }
      break;
    case GemmFamily::grouped_gemm:
      w.put("_grouped");
      break;
    default:
      break;
  }
  return w.end();
}

Result<KernelConfig> parse_gemm_name(std::string_view name) {
  Reader r(name);
  KernelConfig config{.origin = Origin::ck};
  auto& s = config.signature.emplace<GemmSignature>();
  Algorithm& a = config.algorithm;
  if (!r.take(kGemmPrefix)) return r.expected("gemm_");
  if (!r.take_enum(s.a)) return r.expected("a data type such as fp16");
  s.b = s.a;
  s.c = gemm_output_type(s.a);
  s.accumulator = gemm_accumulator_type(s.a);
  if (!take_layout(r, s.layout_a) || !take_layout(r, s.layout_b) || !take_layout(r, s.layout_c))
    return r.expected("three layout letters, r or c");
  const bool has_d = take_layout(r, s.layout_d);
  if (!has_d) s.layout_d = MatrixOrder::row;
  if (!r.take("_") || !r.take_enum(a.pipeline)) return r.expected("a pipeline such as compv3");
  if (!r.take_enum(a.epilogue)) return r.expected("an epilogue such as cshuffle");
  if (!r.take_enum(a.scheduler)) return r.expected("a scheduler such as intrawave");
  for (std::size_t i = 0; i < 3; ++i) {
    bool pad = false;
    if (!r.take_flag(pad) || !r.take("_")) return r.expected("True or False: whether m, n, k are padded");
    a.pad[i] = pad ? 1 : 0;
  }
  if (!r.take_flag(a.persistent) || !r.take("_")) return r.expected("True or False: whether the kernel is persistent");
  if (!r.take_numbers(a.tile, 3) || !r.take("_")) return r.expected("three tile figures joined by x");
  if (!r.take_numbers(a.wave, 3) || !r.take("_")) return r.expected("three wave counts joined by x");
  if (!r.take_numbers(a.warp, 3)) return r.expected("three fragment figures joined by x");
  if (r.take("_preshuffle")) {
    s.family = GemmFamily::preshuffle;
    a.preshuffle = true;
    if (r.take("_permuteN")) a.epilogue = Epilogue::permute_n;
  } else if (r.take("_multid_")) {
    s.family = GemmFamily::multi_d;
    if (!r.take_enum(s.elementwise)) return r.expected("an element-wise operation such as MultiDAdd");
    if (!r.take("d") || !r.take_number(s.num_d)) return r.expected("d and the number of D tensors");
  } else if (r.take("_streamk")) {
    s.family = GemmFamily::stream_k;
    s.stream_k_reduction = StreamKReduction::atomic;
    if (r.take("_") && !r.take_enum(s.stream_k_reduction)) return r.expected("linear or tree");
  } else if (r.take("_grouped")) {
    s.family = GemmFamily::grouped_gemm;
  }
  if (!r.done()) return r.expected("the end of the name");
  if (has_d != (s.family == GemmFamily::multi_d))
    return fail(ErrorCode::parse, "kernel name: four layout letters belong to multi_d, three to the rest",
                "gemm_fp16_rcrr_..._multid_MultiDAdd_d1");
  return config;
}

}  // namespace tilesmith::ck
