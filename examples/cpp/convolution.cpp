// Convolution in its three directions: forward, and the gradients of the image and of the filters. All three belong to
// one bilinear form, so <y, conv(x, w)>, <x, data(y, w)> and <w, weight(x, y)> are the same number.
#include "example.hpp"

int main() {
  using enum tilesmith::ConvDirection;
  tilesmith::ConvProblem problem{.data_type = tilesmith::DataType::fp32,
                                 .type_out = tilesmith::DataType::fp32,
                                 .type_bias = tilesmith::DataType::fp32,
                                 .batch = 2,
                                 .groups = 2,
                                 .c = 8,
                                 .k = 12,
                                 .in_h = 17,
                                 .in_w = 15,
                                 .filter_h = 3,
                                 .filter_w = 3,
                                 .stride_h = 2,
                                 .stride_w = 1,
                                 .pad_h = 1,
                                 .pad_w = 1,
                                 .pad_high_h = 1,
                                 .pad_high_w = 1};
  const auto out = problem.out();
  const auto x = example::random_tensor(2 * 17 * 15 * 16, 1), w = example::random_tensor(24 * 9 * 8, 2),
             y = example::random_tensor(2 * out[1] * out[2] * 24, 3);
  tilesmith::Dispatcher dispatcher;
  float forms[3];
  for (const auto direction : {forward, backward_data, backward_weight}) {
    problem.direction = direction;
    auto call = tilesmith::dense_arguments(problem, tilesmith::ConvLayout::channels_last);
    const auto& like = direction == forward ? y : direction == backward_data ? x : w;
    example::Tensor result(like.size());
    call.x = direction == backward_data ? nullptr : x.data(),
    call.w = direction == backward_weight ? nullptr : w.data();
    call.y = direction == forward ? nullptr : y.data(), call.out = result.data();
    const auto* plan = example::value_of(dispatcher.plan(problem));
    example::check(plan->run(call));
    auto& form = forms[static_cast<int>(direction)];
    form = static_cast<float>(example::dot(result.data(), like.data(), static_cast<std::int64_t>(like.size())));
    std::printf("%s: %.4f\n", plan->info().recipe.c_str(), form);
  }
  example::expect_near("image", {&forms[1], 1}, {&forms[0], 1}, 1e-3 * std::abs(forms[0]) + 1e-2);
  example::expect_near("filters", {&forms[2], 1}, {&forms[0], 1}, 1e-3 * std::abs(forms[0]) + 1e-2);
}
