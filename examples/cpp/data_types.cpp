// Data types and head dims: which kernel would compute each, or why none does. Nothing is compiled or run.
#include "example.hpp"

int main() {
  using enum tilesmith::DataType;
  const std::pair<const char*, tilesmith::DataType> types[] = {{"fp32", fp32}, {"tf32", tf32},       {"fp16", fp16},
                                                               {"bf16", bf16}, {"fp8bf16", fp8bf16}, {"int4", int4}};
  tilesmith::Dispatcher dispatcher;
  int served = 0;
  for (const auto& [name, type] : types)
    for (const auto& [dim_qk, dim_v] : {std::pair{64, 64}, {128, 128}, {192, 128}, {256, 256}, {72, 40}}) {
      const tilesmith::AttentionProblem problem{.data_type = type,
                                                .heads_q = 8,
                                                .heads_kv = 8,
                                                .seqlen_q = 512,
                                                .seqlen_k = 512,
                                                .head_dim_qk = dim_qk,
                                                .head_dim_v = dim_v};
      const auto choice = dispatcher.candidates(problem, dispatcher.options());
      std::printf("%-8s %3d/%-3d  ", name, dim_qk, dim_v);
      if (choice) {
        ++served;
        std::printf("%zu candidates, %.0f us: %s\n", choice->candidates.size(),
                    1e6 * choice->candidates.front().predicted_seconds, choice->candidates.front().recipe.c_str());
      } else {
        std::printf("%s\n", choice.error().text().c_str());
      }
    }
  return served == 25 ? 0 : 1;  // int4 is no type of attention
}
