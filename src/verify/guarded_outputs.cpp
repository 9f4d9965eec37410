#include "verify/guarded_outputs.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace tilesmith {
namespace {

/// Says which row was changed that a call is to leave as it is: zeros, where kernels combine their result with them.
/// Adding to the poison of other outputs would leave it a NaN, perhaps the same one.
std::optional<std::string> changed_row(const OutputSpec& output, const void* data) {
  if (!output.accumulates || !output.written) return std::nullopt;
  OutputSpec all = output;
  all.written = {};
  const RawArray<double> read = read_output(all, data);
  const std::span<const double> values = read.span();
  const TensorExtents& e = output.extents;
  for (std::size_t at = 0; at < values.size(); ++at) {
    const std::int64_t line = static_cast<std::int64_t>(at) / e.column;
    const std::int64_t batch = line / e.row / e.head, row = line % e.row;
    if (values[at] != 0 && !output.is_written(batch, row))
      return fmt::format("row {} of batch {}, a row left out, was written", row, batch);
  }
  return std::nullopt;
}

}  // namespace

Result<Verdict> verify_guarded(std::span<const OutputSpec> outputs, const Reference& reference,
                               FunctionRef<Status(std::span<GuardedBuffer> buffers)> run) {
  std::vector<GuardedBuffer> buffers;
  for (const OutputSpec& output : outputs) {
    buffers.emplace_back(output.type, output.extents, output.strides);
    if (output.accumulates) buffers.back().fill(std::vector<float>(static_cast<std::size_t>(output.extents.count())));
  }
  TS_TRY(run(buffers));
  std::vector<RawArray<double>> values;
  std::vector<OutputValues> written;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& output = outputs[i];
    std::optional<std::string> damage = buffers[i].damage(output.accumulates ? RowFilter() : output.written);
    if (!damage) damage = changed_row(output, buffers[i].data());
    if (damage) {
      Verdict verdict;
      verdict.tensor = output.name;
      fails(verdict, Check::guards, fmt::format("{}: {}", output.name, *damage));
      return verdict;
    }
    values.push_back(read_output(output, buffers[i].data()));
    written.push_back({.name = output.name, .values = values.back().span(), .judged = output.judged});
  }
  return reference.judge(written);
}

}  // namespace tilesmith
