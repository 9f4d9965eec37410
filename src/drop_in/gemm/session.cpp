#include "drop_in/gemm/session.hpp"

#include <fmt/format.h>

#include "base/env.hpp"
#include "drop_in/answer.hpp"
#include "problem/derive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

constexpr const char* kGemmVariable = "TILESMITH_CK_GEMM";

}  // namespace

Result<GemmKind> GemmKind::parse(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is '{}'", kGemmVariable, text.substr(0, 32)),
                "a type (fp16, bf16, fp32, fp8, bf8 or int8), _ and the orders of A, B and C: fp16_rcr");
  };
  const std::size_t line = text.find('_');
  if (line == std::string_view::npos || text.size() != line + 4) return wrong();
  GemmKind kind;
  bool known = false;
  for (const DataType type :
       {DataType::fp16, DataType::bf16, DataType::fp32, DataType::fp8, DataType::bf8, DataType::int8})
    if (text.substr(0, line) == name_of(type)) {
      kind.type = type;
      known = true;
    }
  if (!known || text.substr(line + 1).find_first_not_of("rc") != std::string_view::npos) return wrong();
  const auto order = [&](std::size_t i) { return text[line + 1 + i] == 'r' ? MatrixOrder::row : MatrixOrder::column; };
  kind.order_a = order(0);
  kind.order_b = order(1);
  kind.order_c = order(2);
  return kind;
}

Result<GemmProblem> GemmKind::problem(std::int64_t m, std::int64_t n, std::int64_t k) const {
  if (m <= 0 || n <= 0 || k <= 0)
    return fail(ErrorCode::invalid_argument, fmt::format("M, N and K are {}, {} and {}", m, n, k), "1 or more each");
  GemmProblem problem = gemm_problem(type, m, n, k, gemm_output_type(type));
  problem.order_a = order_a;
  problem.order_b = order_b;
  problem.order_d = order_c;
  TS_TRY(validate(problem));
  return problem;
}

Result<std::shared_ptr<GemmSession>> GemmSession::open() {
  TS_ASSIGN(const Device device, chosen_device());
  TS_ASSIGN(const GemmKind kind, GemmKind::parse(env(kGemmVariable).value_or("fp16_rcr")));
  std::shared_ptr<GemmSession> session(new GemmSession(device, kind));
  TS_ASSIGN(const GemmProblem usual, kind.problem(4096, 4096, 4096));
  TS_ASSIGN(const ChoiceInfo choice,
            session->dispatcher_.candidates(with_derived_fields(usual), session->dispatcher_.options()));
  session->kernels_.add(choice);
  return session;
}

Result<std::shared_ptr<GemmSession>> gemm_session() {
  if (auto session = Sessions<GemmSession>::get().current()) return session;
  return fail(ErrorCode::not_found, "GEMM is not initialised", "call dispatcher_initialize first");
}

}  // namespace tilesmith::drop_in

using namespace tilesmith;

int dispatcher_initialize(void) {
  const int code = drop_in::answer("dispatcher_initialize", [] {
    return drop_in::Sessions<drop_in::GemmSession>::get().initialize([] { return drop_in::GemmSession::open(); });
  });
  return code == 0 ? 0 : TILESMITH_CK_FAILED;
}

int dispatcher_init(void) {
  return dispatcher_initialize();
}

void dispatcher_cleanup(void) {
  drop_in::Sessions<drop_in::GemmSession>::get().clean_up();
}
