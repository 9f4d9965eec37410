#include "gemm_peers.hpp"

#include <dlfcn.h>

#include <memory>

#ifdef GEMM_BENCH_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace tilesmith {
namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

void add_openblas(std::vector<GemmPeer>& peers, const GemmCall& call) {
  if (call.element != ElementType::fp32 || call.output != ElementType::fp32) return;
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  if (set_threads == nullptr || sgemm == nullptr) return;
  set_threads(call.threads);
  peers.push_back({"OpenBLAS", [=] {
                     constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
                     const auto m = static_cast<int>(call.m), n = static_cast<int>(call.n),
                                k = static_cast<int>(call.k);
                     sgemm(kRowMajor, call.row_a ? kPlain : kTransposed, call.row_b ? kPlain : kTransposed, m, n, k, 1,
                           static_cast<const float*>(call.a), call.row_a ? k : m, static_cast<const float*>(call.b),
                           call.row_b ? n : k, 0, static_cast<float*>(call.d), n);
                   }});
}

#ifdef GEMM_BENCH_DNNL
dnnl::memory::data_type type_of(ElementType type) {
  using Type = dnnl::memory::data_type;
  switch (type) {
    case ElementType::bf16:
      return Type::bf16;
    case ElementType::fp16:
      return Type::f16;
    case ElementType::int8:
      return Type::s8;
    case ElementType::int32:
      return Type::s32;
    default:
      return Type::f32;
  }
}

struct Onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::memory a, b, d;
  dnnl::matmul product;
};

void add_onednn(std::vector<GemmPeer>& peers, const GemmCall& call, bool packed) {
  using dnnl::memory;
  using Tag = memory::format_tag;
  if (const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set_threads(call.threads);
  try {
    auto state = std::make_shared<Onednn>();
    const memory::desc a({call.m, call.k}, type_of(call.element), call.row_a ? Tag::ab : Tag::ba);
    const memory::desc plain({call.k, call.n}, type_of(call.element), call.row_b ? Tag::ab : Tag::ba);
    const memory::desc any({call.k, call.n}, type_of(call.element), Tag::any);
    const memory::desc d({call.m, call.n}, type_of(call.output), Tag::ab);
    const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(a, packed ? any : plain, d), state->engine);
    state->product = dnnl::matmul(primitive);
    state->a = memory(a, state->engine, const_cast<void*>(call.a));
    state->d = memory(d, state->engine, call.d);
    memory b(plain, state->engine, const_cast<void*>(call.b));
    if (packed) {
      state->b = memory(primitive.weights_desc(), state->engine);
      dnnl::reorder(b, state->b).execute(state->stream, b, state->b);
      state->stream.wait();
    } else {
      state->b = b;
    }
    peers.push_back({"oneDNN", [state] {
                       state->product.execute(
                           state->stream,
                           {{DNNL_ARG_SRC, state->a}, {DNNL_ARG_WEIGHTS, state->b}, {DNNL_ARG_DST, state->d}});
                       state->stream.wait();
                     }});
  } catch (const dnnl::error&) {
    // This version does not have the combination of types on this machine.
  }
}
#endif

}  // namespace

std::vector<GemmPeer> gemm_peers(const GemmCall& call, bool packed) {
  std::vector<GemmPeer> peers;
  if (!packed) add_openblas(peers, call);
#ifdef GEMM_BENCH_DNNL
  add_onednn(peers, call, packed);
#endif
  return peers;
}

}  // namespace tilesmith
