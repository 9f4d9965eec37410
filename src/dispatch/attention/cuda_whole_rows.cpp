#include "dispatch/attention/cuda_whole_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "choose/attention/whole_rows.hpp"
#include "dispatch/workspace.hpp"
#include "kernels/cuda/copy/rows_abi.h"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kCopiesApart = 256;
constexpr std::int64_t kRowUnit = 16;  // bytes that the copy engine's rows are multiples of

/// The plan of the copies with the copies' share of the workspace, behind its own.
PlanInfo info_with_copies(PlanInfo info, std::int64_t bytes) {
  info.steps.insert(
      info.steps.begin(),
      {.kernel = "copy_rows", .role = "pad", .what = "copies what has other rows to rows of whole 16 bytes"});
  info.steps.push_back({.kernel = "copy_rows", .role = "unpad", .what = "copies the results back"});
  const std::size_t offset = (info.workspace_bytes + kCopiesApart - 1) / kCopiesApart * kCopiesApart;
  info.workspace.push_back({.name = "whole rows", .offset = offset, .bytes = static_cast<std::size_t>(bytes)});
  info.workspace_bytes = offset + static_cast<std::size_t>(bytes);
  return info;
}

/// The copies of one call: tells each tensor's place to the call of the plan between them.
class RowCopies {
 public:
  RowCopies(std::byte* memory, std::int64_t element_bytes) : memory_(memory), element_(element_bytes) {}

  /// Of an input, which moves to its copy where its own rows are no whole 16 bytes.
  void read(const HeadRows& rows, const void*& data, AttentionStrides& strides) {
    if (is_whole(rows, data, strides)) return;
    const AttentionStrides own = strides;
    void* const copy = take(rows, strides);
    add(before_, rows, data, own, rows.row_bytes, copy, strides, rows.whole_bytes());
    data = copy;
  }
  /// Of a result, which is brought back.
  void write(const HeadRows& rows, void*& data, AttentionStrides& strides) {
    if (is_whole(rows, data, strides)) return;
    const AttentionStrides own = strides;
    void* const copy = take(rows, strides);
    add(behind_, rows, copy, strides, rows.row_bytes, data, own, rows.row_bytes);
    data = copy;
  }

  [[nodiscard]] Status run_before(const CudaRowCopier& copier, void* stream) const {
    return run(before_, copier, stream);
  }
  [[nodiscard]] Status run_behind(const CudaRowCopier& copier, void* stream) const {
    return run(behind_, copier, stream);
  }

 private:
  struct Launch {
    TsCopyRowsArgs args{};
    int tensors = 0;
  };

  [[nodiscard]] bool is_whole(const HeadRows& rows, const void* data, const AttentionStrides& s) const {
    // As the plan between asks (check_gpu_alignment): of a single row, too.
    const std::int64_t steps = (rows.batch > 1 ? s.batch : 0) | (rows.heads > 1 ? s.head : 0) | s.row;
    const auto address = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(steps * element_);
    return rows.row_bytes % kRowUnit == 0 && address % kRowUnit == 0;
  }

  void* take(const HeadRows& rows, AttentionStrides& strides) {
    const PaddedRows copied = rows.copied();
    strides.row = copied.stride() / element_;
    strides.head = rows.rows * strides.row;
    strides.batch = rows.heads * strides.head;
    return std::exchange(memory_, memory_ + copied.bytes());
  }

  void add(Launch& launch, const HeadRows& rows, const void* from, const AttentionStrides& from_strides,
           std::int64_t from_bytes, void* to, const AttentionStrides& to_strides, std::int64_t to_bytes) const {
    TsRowsOfHeads& tensor = launch.args.tensors[launch.tensors++];
    tensor.from = from;
    tensor.to = to;
    tensor.from_batch = from_strides.batch * element_;
    tensor.from_head = from_strides.head * element_;
    tensor.from_row = from_strides.row * element_;
    tensor.to_batch = to_strides.batch * element_;
    tensor.to_head = to_strides.head * element_;
    tensor.to_row = to_strides.row * element_;
    tensor.heads = static_cast<int>(rows.heads);
    tensor.rows = static_cast<int>(rows.rows);
    tensor.from_bytes = static_cast<int>(from_bytes);
    tensor.to_bytes = static_cast<int>(to_bytes);
    tensor.lines = static_cast<int>(rows.batch * rows.heads * rows.rows);
  }

  [[nodiscard]] static Status run(const Launch& launch, const CudaRowCopier& copier, void* stream) {
    constexpr std::int64_t kBlocksOfSm = 4, kWarps = TS_COPY_THREADS / 32;
    std::int64_t groups = 0;  // of lines that a warp copies at a time
    for (const TsRowsOfHeads& tensor : launch.args.tensors)
      groups += (tensor.lines + TS_COPY_LINES - 1) / TS_COPY_LINES;
    if (groups == 0) return {};
    const CudaCurrent current(copier.kernel.context());
    TS_TRY(current.status());
    const std::int64_t blocks = std::min((groups + kWarps - 1) / kWarps, copier.spec.reference.sms * kBlocksOfSm);
    return launch_with(copier.kernel,
                       {.grid = {static_cast<unsigned>(blocks), 1, 1},
                        .block = {TS_COPY_THREADS, 1, 1},
                        .overlaps_previous = true,
                        .stream = static_cast<cu::Stream>(stream)},
                       launch.args);
  }

  std::byte* memory_;
  std::int64_t element_;
  Launch before_, behind_;
};

void move_rows(const AttentionRows& rows, AttentionArguments& a, RowCopies& copies) {
  copies.read(rows.q, a.q, a.q_strides);
  copies.read(rows.k, a.k, a.k_strides);
  copies.read(rows.v, a.v, a.v_strides);
  copies.write(rows.o, a.o, a.o_strides);
}

/// The forward's o is read by the backward.
void move_rows(const AttentionRows& rows, AttentionBackwardArguments& a, RowCopies& copies) {
  AttentionArguments& f = a.forward;
  const void* o = f.o;
  copies.read(rows.q, f.q, f.q_strides);
  copies.read(rows.k, f.k, f.k_strides);
  copies.read(rows.v, f.v, f.v_strides);
  copies.read(rows.o, o, f.o_strides);
  copies.read(rows.o, a.dout, a.dout_strides);
  f.o = const_cast<void*>(o);
  copies.write(rows.q, a.dq, a.dq_strides);
  copies.write(rows.k, a.dk, a.dk_strides);
  copies.write(rows.v, a.dv, a.dv_strides);
}

/// Of q, k, v and o, or of each and its gradient.
std::int64_t copied_bytes_of(const AttentionProblem& p) {
  return rows_of(p).bytes();
}
std::int64_t copied_bytes_of(const AttentionBackwardProblem& p) {
  return 2 * rows_of(forward_of(p)).bytes();
}

AttentionRows rows_of_problem(const AttentionProblem& p) {
  return rows_of(p);
}
AttentionRows rows_of_problem(const AttentionBackwardProblem& p) {
  return rows_of(forward_of(p));
}

/// `Base` is AttentionPlan or AttentionBackwardPlan.
template <class Base, class Problem, class Arguments>
class WholeRowsPlan final : public Base {
 public:
  WholeRowsPlan(const Problem& problem, std::unique_ptr<Base> attend, const CudaRowCopier& copier)
      : Base(problem, info_with_copies(attend->info(), copied_bytes_of(problem))),
        attend_(std::move(attend)),
        copier_(copier),
        size_{.part_bytes = static_cast<std::size_t>(copied_bytes_of(problem))} {}

  [[nodiscard]] Status run(const Arguments& given, const RunOptions& options) const override {
    TS_TRY(validate(this->problem(), given, DeviceKind::cuda));
    std::byte* memory = nullptr;
    if (options.workspace != nullptr) {
      TS_TRY(check_workspace(options.workspace));
      memory = static_cast<std::byte*>(options.workspace) + this->workspace_bytes() - size_.part_bytes;
    } else {
      TS_ASSIGN(const CudaSplitMemory::Place place, copier_.memory.of(static_cast<cu::Stream>(options.stream), size_));
      memory = reinterpret_cast<std::byte*>(place.parts);
    }
    Arguments a = given;
    RowCopies copies(memory, bits_of(this->problem().data_type) / 8);
    move_rows(rows_of_problem(this->problem()), a, copies);
    TS_TRY(copies.run_before(copier_, options.stream));
    TS_TRY(attend_->run(a, options));
    return copies.run_behind(copier_, options.stream);
  }

 private:
  std::unique_ptr<Base> attend_;
  CudaRowCopier copier_;
  CudaSplitMemory::Size size_;
};

}  // namespace

Result<std::unique_ptr<AttentionPlan>> cuda_whole_rows_plan(const AttentionProblem& problem,
                                                            std::unique_ptr<AttentionPlan> attend,
                                                            const CudaRowCopier& copier) {
  TS_TRY(copier.memory.reserve({.part_bytes = static_cast<std::size_t>(copied_bytes_of(problem))}));
  return std::make_unique<WholeRowsPlan<AttentionPlan, AttentionProblem, AttentionArguments>>(
      problem, std::move(attend), copier);
}

Result<std::unique_ptr<AttentionBackwardPlan>> cuda_whole_rows_plan(const AttentionBackwardProblem& problem,
                                                                    std::unique_ptr<AttentionBackwardPlan> attend,
                                                                    const CudaRowCopier& copier) {
  TS_TRY(copier.memory.reserve({.part_bytes = static_cast<std::size_t>(copied_bytes_of(problem))}));
  return std::make_unique<WholeRowsPlan<AttentionBackwardPlan, AttentionBackwardProblem, AttentionBackwardArguments>>(
      problem, std::move(attend), copier);
}

}  // namespace tilesmith
