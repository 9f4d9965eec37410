// Questions about the kernels: their number, names, tiles, and which one serves given sizes.
#include <fmt/format.h>

#include "base/json.hpp"
#include "drop_in/answer.hpp"
#include "drop_in/gemm/session.hpp"
#include "problem/derive.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith::drop_in {
namespace {

Result<std::string> first_kernel() {
  TS_ASSIGN(const auto session, gemm_session());
  return session->kernels().all().front();
}

Result<KernelConfig> config_of(const std::string& recipe) {
  TS_ASSIGN(const Recipe parsed, parse_recipe_name(recipe));
  return parsed.main();
}

/// Of the C functions that give a name or a yes: a failure is -1, whatever it is.
int failed(const Error&) {
  return TILESMITH_CK_FAILED;
}

nlohmann::json along(const std::array<std::uint16_t, 9>& sizes) {
  return {{"m", sizes[0]}, {"n", sizes[1]}, {"k", sizes[2]}};
}

/// In the words of Composable Kernel's export; "identifier" is the kernel's key.
Result<std::string> registry_json() {
  TS_ASSIGN(const auto session, gemm_session());
  nlohmann::json kernels = nlohmann::json::array();
  for (const std::string& name : session->kernels().all()) {
    TS_ASSIGN(const KernelConfig config, config_of(name));
    const Algorithm& a = config.algorithm;
    kernels.push_back({{"identifier", key_of(config).hex()},
                       {"name", name},
                       {"algorithm",
                        {{"tile_shape", along(a.tile)},
                         {"wave_shape", along(a.wave)},
                         {"warp_tile_shape", along(a.warp)},
                         {"persistent", a.persistent},
                         {"double_buffer", a.double_buffer},
                         {"preshuffle", a.preshuffle},
                         {"transpose_c", a.transpose_c}}}});
  }
  const nlohmann::json all = {{"metadata",
                               {{"total_kernels", kernels.size()},
                                {"export_version", "1.0"},
                                {"dispatcher_version", TILESMITH_VERSION},
                                {"device", to_string(session->device())}}},
                              {"statistics", nlohmann::json::object()},
                              {"kernels", std::move(kernels)}};
  return all.dump(2);
}

}  // namespace
}  // namespace tilesmith::drop_in

using namespace tilesmith;

int dispatcher_get_kernel_config(int* tile_m, int* tile_n, int* tile_k, int* warp_tile_m, int* warp_tile_n,
                                 int* warp_tile_k, int* warp_m, int* warp_n, int* warp_k) {
  return drop_in::answer(
      "dispatcher_get_kernel_config", int{TILESMITH_CK_FAILED},
      [&]() -> Result<int> {
        TS_ASSIGN(const std::string name, drop_in::first_kernel());
        TS_ASSIGN(const KernelConfig config, drop_in::config_of(name));
        const auto write = [](const std::array<std::uint16_t, 9>& sizes, int* m, int* n, int* k) {
          if (m != nullptr) *m = sizes[0];
          if (n != nullptr) *n = sizes[1];
          if (k != nullptr) *k = sizes[2];
        };
        write(config.algorithm.tile, tile_m, tile_n, tile_k);
        write(config.algorithm.warp, warp_tile_m, warp_tile_n, warp_tile_k);
        write(config.algorithm.wave, warp_m, warp_n, warp_k);
        return 0;
      },
      drop_in::failed);
}

int dispatcher_select_kernel(int64_t M, int64_t N, int64_t K, char* name_buffer, int buffer_size) {
  return drop_in::answer(
      "dispatcher_select_kernel", int{TILESMITH_CK_FAILED},
      [&]() -> Result<int> {
        TS_ASSIGN(const auto session, drop_in::gemm_session());
        TS_ASSIGN(const GemmProblem problem, session->kind().problem(M, N, K));
        TS_ASSIGN(const GemmPlan* plan, session->dispatcher().plan(with_derived_fields(problem)));
        return drop_in::write_name(plan->kernel_name(), name_buffer, buffer_size) ? 0 : TILESMITH_CK_FAILED;
      },
      drop_in::failed);
}

int dispatcher_is_supported(int64_t M, int64_t N, int64_t K) {
  return drop_in::answer(
      "dispatcher_is_supported", 0,
      [&]() -> Result<int> {
        TS_ASSIGN(const auto session, drop_in::gemm_session());
        TS_ASSIGN(const GemmProblem problem, session->kind().problem(M, N, K));
        TS_TRY(session->dispatcher().candidates(with_derived_fields(problem), session->dispatcher().options()));
        return 1;
      },
      [](const Error&) { return 0; });
}

const char* dispatcher_get_kernel_name(void) {
  static thread_local std::string name;  // lives on when the session ends
  name = drop_in::first_kernel().value_or("");
  return name.c_str();
}

int dispatcher_get_kernel_name_at(int index, char* buffer, int buffer_size) {
  const auto session = drop_in::gemm_session();
  if (!session || index < 0 || static_cast<std::size_t>(index) >= (*session)->kernels().all().size())
    return TILESMITH_CK_FAILED;
  return drop_in::write_name((*session)->kernels().all()[static_cast<std::size_t>(index)], buffer, buffer_size)
             ? 0
             : TILESMITH_CK_FAILED;
}

int dispatcher_get_kernel_count(void) {
  const auto session = drop_in::gemm_session();
  return session ? static_cast<int>((*session)->kernels().all().size()) : 0;
}

const char* dispatcher_export_registry_json(void) {
  static thread_local std::string text;
  try {
    text = drop_in::registry_json().value_or("{}");
  } catch (const std::exception& error) {
    log_error("dispatcher_export_registry_json: {}", error.what());
    text.clear();
  }
  return text.c_str();
}
