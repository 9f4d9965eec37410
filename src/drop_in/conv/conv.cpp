// Grouped convolution, on the caller's own device memory.
#include <fmt/format.h>

#include "base/env.hpp"
#include "drop_in/answer.hpp"
#include "drop_in/memory.hpp"
#include "drop_in/session.hpp"
#include "problem/derive.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

constexpr const char* kConvVariable = "TILESMITH_CK_CONV";
constexpr Repeats kConvRepeats{.warm_up = 3, .timed = 10};
constexpr int kDirections = 3;

Result<DataType> chosen_type() {
  const std::string text = env(kConvVariable).value_or("fp16");
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32})
    if (text == name_of(type)) return type;
  return fail(ErrorCode::invalid_argument, fmt::format("{} is '{}'", kConvVariable, text.substr(0, 32)),
              "fp16, bf16 or fp32");
}

Result<ConvProblem> conv_problem(const ck_conv_problem& p, DataType type) {
  if (p.direction < 0 || p.direction >= kDirections)
    return fail(ErrorCode::invalid_argument, fmt::format("direction is {}", p.direction),
                "0 forward, 1 backward data, 2 backward weight");
  if (p.G < 1 || p.C % p.G != 0 || p.K % p.G != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("{} and {} channels in {} groups", p.C, p.K, p.G),
                "groups of whole channels");
  ConvProblem problem{.direction = static_cast<ConvDirection>(p.direction),
                      .data_type = type,
                      .type_out = type,
                      .type_bias = type,
                      .batch = p.N,
                      .groups = p.G,
                      .c = p.C / p.G,
                      .k = p.K / p.G,
                      .in_h = p.input_h,
                      .in_w = p.input_w,
                      .filter_h = p.filter_y,
                      .filter_w = p.filter_x,
                      .stride_h = p.stride_h,
                      .stride_w = p.stride_w,
                      .dilation_h = p.dilation_h,
                      .dilation_w = p.dilation_w,
                      .pad_h = p.pad_h,
                      .pad_w = p.pad_w,
                      .pad_high_h = p.pad_h,
                      .pad_high_w = p.pad_w};
  if (p.input_d > 1 || p.filter_z > 1) {
    problem.in_d = p.input_d;
    problem.filter_d = p.filter_z;
    problem.stride_d = p.stride_d;
    problem.dilation_d = p.dilation_d;
    problem.pad_d = problem.pad_high_d = p.pad_d;
  }
  TS_TRY(validate(problem));
  return problem;
}

class ConvSession {
 public:
  static Result<std::shared_ptr<ConvSession>> open() {
    TS_ASSIGN(const Device device, chosen_device());
    TS_ASSIGN(const DataType type, chosen_type());
    std::shared_ptr<ConvSession> session(new ConvSession(device, type));
    Error why;
    for (const int direction : {0, 1, 2})
      for (const int depth : {1, 3}) {
        const ck_conv_problem usual{.N = 8,
                                    .G = 1,
                                    .C = 64,
                                    .K = 64,
                                    .input_d = depth,
                                    .input_h = 28,
                                    .input_w = 28,
                                    .filter_z = depth,
                                    .filter_y = 3,
                                    .filter_x = 3,
                                    .stride_d = 1,
                                    .stride_h = 1,
                                    .stride_w = 1,
                                    .pad_d = 0,
                                    .pad_h = 1,
                                    .pad_w = 1,
                                    .dilation_d = 1,
                                    .dilation_h = 1,
                                    .dilation_w = 1,
                                    .direction = direction};
        TS_ASSIGN(const ConvProblem problem, conv_problem(usual, type));
        const Result<ChoiceInfo> choice = session->candidates(problem);
        if (choice) {
          session->kernels_.add(*choice);
          session->serves_[static_cast<std::size_t>(direction)] = true;
        } else {
          why = choice.error();
        }
      }
    if (session->kernels_.all().empty())
      return fail(ErrorCode::not_found, fmt::format("{} has no convolution kernels: {}", to_string(device), why.text()),
                  "another device, in TILESMITH_CK_DEVICE");
    return session;
  }

  [[nodiscard]] Dispatcher& dispatcher() { return dispatcher_; }
  [[nodiscard]] Result<ConvProblem> problem_of(const ck_conv_problem& given) const {
    return conv_problem(given, type_);
  }
  [[nodiscard]] const KernelNames& kernels() const { return kernels_; }
  [[nodiscard]] bool serves(ConvDirection direction) const { return serves_[static_cast<std::size_t>(direction)]; }
  [[nodiscard]] Result<ChoiceInfo> candidates(const ConvProblem& problem) {
    return dispatcher_.candidates(derived(problem, dense_arguments(problem, ConvLayout::channels_last)),
                                  dispatcher_.options());
  }

 private:
  ConvSession(Device device, DataType type) : dispatcher_(DispatcherOptions{.device = device}), type_(type) {}

  Dispatcher dispatcher_;
  DataType type_;
  KernelNames kernels_;
  std::array<bool, kDirections> serves_{};
};

Result<std::shared_ptr<ConvSession>> conv_session() {
  if (auto session = Sessions<ConvSession>::get().current()) return session;
  return fail(ErrorCode::not_found, "convolution is not initialised", "call conv_dispatcher_init first");
}

int serves(ConvDirection direction) {
  const auto session = Sessions<ConvSession>::get().current();
  return session && session->serves(direction) ? 1 : 0;
}

Result<ConvArguments> bind(const ConvProblem& problem, const void* slot0, const void* slot1, void* slot2) {
  ConvArguments arguments = dense_arguments(problem, ConvLayout::channels_last);
  switch (problem.direction) {
    case ConvDirection::forward:
      arguments.x = slot0;
      arguments.w = slot1;
      break;
    case ConvDirection::backward_data:
      arguments.y = slot0;
      arguments.w = slot1;
      break;
    case ConvDirection::backward_weight:
      arguments.x = slot0;
      arguments.y = slot1;
      break;
  }
  arguments.out = slot2;
  return arguments;
}

Result<double> seconds_of(const ck_conv_problem& given, const void* slot0, const void* slot1, void* slot2,
                          void* stream) {
  TS_ASSIGN(const auto session, conv_session());
  TS_ASSIGN(const ConvProblem problem, session->problem_of(given));
  TS_ASSIGN(const ConvArguments arguments, bind(problem, slot0, slot1, slot2));
  TS_ASSIGN(const ConvPlan* plan, session->dispatcher().plan(derived(problem, arguments)));
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->dispatcher().device(), stream));
  return memory->run([&](const RunOptions& options) { return plan->run(arguments, options); }, kConvRepeats);
}

/// conv_dispatcher_run's numbers: they tell a wrong problem from one without a kernel.
float number_of(const Error& error) {
  if (!is_about_the_call(error.code)) return TILESMITH_CK_FAILED;
  return error.code == ErrorCode::unsupported ? TILESMITH_CK_NO_KERNEL : TILESMITH_CK_REFUSED;
}

}  // namespace
}  // namespace tilesmith::drop_in

using namespace tilesmith;

int conv_dispatcher_init(void) {
  const int code = drop_in::answer("conv_dispatcher_init", [] {
    return drop_in::Sessions<drop_in::ConvSession>::get().initialize([] { return drop_in::ConvSession::open(); });
  });
  return code == 0 ? 0 : TILESMITH_CK_FAILED;
}

int conv_dispatcher_cleanup(void) {
  drop_in::Sessions<drop_in::ConvSession>::get().clean_up();
  return 0;
}

const char* conv_dispatcher_version(void) {
  return TILESMITH_VERSION;
}

int conv_dispatcher_has_kernels(void) {
  return drop_in::serves(ConvDirection::forward);
}

int conv_dispatcher_has_bwd_data(void) {
  return drop_in::serves(ConvDirection::backward_data);
}

int conv_dispatcher_has_bwd_weight(void) {
  return drop_in::serves(ConvDirection::backward_weight);
}

int conv_dispatcher_get_kernel_count(void) {
  const auto session = drop_in::Sessions<drop_in::ConvSession>::get().current();
  return session ? static_cast<int>(session->kernels().all().size()) : 0;
}

int conv_dispatcher_get_kernel_name(int index, char* buffer, int buffer_size) {
  const auto session = drop_in::Sessions<drop_in::ConvSession>::get().current();
  if (!session || index < 0 || static_cast<std::size_t>(index) >= session->kernels().all().size())
    return TILESMITH_CK_FAILED;
  return drop_in::write_name(session->kernels().all()[static_cast<std::size_t>(index)], buffer, buffer_size)
             ? 0
             : TILESMITH_CK_FAILED;
}

int conv_dispatcher_is_supported(const ck_conv_problem* problem) {
  if (problem == nullptr) return 0;
  return drop_in::answer(
      "conv_dispatcher_is_supported", 0,
      [&]() -> Result<int> {
        TS_ASSIGN(const auto session, drop_in::conv_session());
        TS_ASSIGN(const ConvProblem asked, session->problem_of(*problem));
        TS_TRY(session->candidates(asked));
        return 1;
      },
      [](const Error&) { return 0; });
}

int conv_dispatcher_select_kernel(const ck_conv_problem* problem, char* kernel_name, int buffer_size) {
  if (drop_in::any_is_null("conv_dispatcher_select_kernel", {{"problem", problem}})) return TILESMITH_CK_FAILED;
  return drop_in::answer(
      "conv_dispatcher_select_kernel", int{TILESMITH_CK_FAILED},
      [&]() -> Result<int> {
        TS_ASSIGN(const auto session, drop_in::conv_session());
        TS_ASSIGN(const ConvProblem asked, session->problem_of(*problem));
        TS_ASSIGN(const ConvPlan* plan,
                  session->dispatcher().plan(derived(asked, dense_arguments(asked, ConvLayout::channels_last))));
        return drop_in::write_name(plan->kernel_name(), kernel_name, buffer_size) ? 0 : TILESMITH_CK_FAILED;
      },
      [](const Error&) { return int{TILESMITH_CK_FAILED}; });
}

float conv_dispatcher_run(const void* slot0, const void* slot1, void* slot2, const ck_conv_problem* problem,
                          void* stream) {
  constexpr std::string_view name = "conv_dispatcher_run";
  if (drop_in::any_is_null(name, {{"slot 0", slot0}, {"slot 1", slot1}, {"slot 2", slot2}, {"problem", problem}}))
    return TILESMITH_CK_FAILED;
  return drop_in::answer(
      name, float{TILESMITH_CK_FAILED},
      [&]() -> Result<float> {
        TS_ASSIGN(const double seconds, drop_in::seconds_of(*problem, slot0, slot1, slot2, stream));
        return static_cast<float>(seconds * 1e3);
      },
      drop_in::number_of);
}
