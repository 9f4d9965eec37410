#include "dispatch/attention/cuda_seen_queries.hpp"

#include <utility>

#include "choose/attention/seen_queries.hpp"
#include "dispatch/attention/gpu_arguments.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

PlanInfo info_with_fill(PlanInfo info) {
  info.steps.insert(info.steps.begin(),
                    {.kernel = "copy_rows", .role = "fill", .what = "writes the zeros of queries that see no key"});
  return info;
}

class SeenQueriesPlan final : public AttentionPlan {
 public:
  SeenQueriesPlan(const AttentionProblem& p, std::unique_ptr<AttentionPlan> attend, const CudaRowCopier& copier)
      : AttentionPlan(p, info_with_fill(attend->info())),
        attend_(std::move(attend)),
        copier_(copier),
        hidden_(hidden_queries(p)) {}

  [[nodiscard]] Status run(const AttentionArguments& given, const RunOptions& options) const override {
    const AttentionProblem& p = problem();
    TS_TRY(validate(p, given, DeviceKind::cuda));
    const std::int64_t element = bits_of(p.data_type) / 8;
    TS_TRY(check_gpu_alignment("o", given.o, given.o_strides, p.batch, p.heads_q, element));
    TsCopyRowsArgs fill{};
    TsRowsOfHeads& rows = fill.tensors[0];
    rows.to = given.o;
    rows.to_batch = given.o_strides.batch * element;
    rows.to_head = given.o_strides.head * element;
    rows.to_row = given.o_strides.row * element;
    rows.heads = static_cast<int>(p.heads_q);
    rows.rows = static_cast<int>(hidden_);
    rows.to_bytes = static_cast<int>(p.head_dim_v * element);
    rows.lines = static_cast<int>(p.batch * p.heads_q * hidden_);
    TS_TRY(run_copies(fill, copier_, options.stream));

    AttentionArguments seen = given;
    seen.q = static_cast<const std::byte*>(given.q) + hidden_ * given.q_strides.row * element;
    seen.o = static_cast<std::byte*>(given.o) + hidden_ * given.o_strides.row * element;
    if (given.bias != nullptr) seen.bias = given.bias + hidden_ * given.bias_strides.row;
    return attend_->run(seen, options);
  }

 private:
  std::unique_ptr<AttentionPlan> attend_;
  CudaRowCopier copier_;
  std::int64_t hidden_;
};

}  // namespace

std::unique_ptr<AttentionPlan> cuda_seen_queries_plan(const AttentionProblem& problem,
                                                      std::unique_ptr<AttentionPlan> attend,
                                                      const CudaRowCopier& copier) {
  return std::make_unique<SeenQueriesPlan>(problem, std::move(attend), copier);
}

}  // namespace tilesmith
