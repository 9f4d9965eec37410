#include "cli/selection.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/env.hpp"
#include "base/log.hpp"
#include "catalog/unused_values.hpp"
#include "cli/operation_option.hpp"

namespace tilesmith::cli {
namespace {

Result<std::pair<int, int>> parse_head_dims(const std::string& text) {
  int qk = 0, v = 0, used = 0;
  if (std::sscanf(text.c_str(), "%5dx%5d%n", &qk, &v, &used) == 2 && static_cast<std::size_t>(used) == text.size())
    return std::pair(qk, v);
  if (std::sscanf(text.c_str(), "%5d%n", &qk, &used) == 1 && static_cast<std::size_t>(used) == text.size())
    return std::pair(qk, qk);
  return fail(ErrorCode::invalid_argument, fmt::format("--head-dim {}", text),
              "one figure from 1 to 65535, or two joined by x: 192x128");
}

/// Whether a selection holds an instance at all.
bool holds_some(const Selection& selection) {
  const auto listing = selection.prepare();
  bool found = false;
  ListStatistics statistics;
  return listing &&
         listing->walk(
             [&](const KernelConfig&) {
               found = true;
               return false;
             },
             statistics) &&
         found;
}

}  // namespace

void Selection::add_to(CLI::App& verb) {
  verb.add_option("config", request.sweep_file, "Sweep file (JSON): a variant and allow-lists of traits");
  verb.add_option("--arch", request.arch, "Architecture, for example gfx950 or x86_64_v4");
  verb.add_option("--op", operation, "attention, attention_bwd (its variant bwd), gemm or conv")->capture_default_str();
  verb.add_option("--origin", origin,
                  "own: Tilesmith's kernels; ck: Composable Kernel's instances, the default for AMD chips");
  verb.add_option("--variant", request.variant,
                  "One variant of the operation; all when absent. GEMM on CPUs and NVIDIA GPUs: standard when absent, "
                  "fp8_bf8, m_grouped, blockscale, weights, mm_plus_mm or all");
  verb.add_option("--receipt", request.receipt, "Attention: a receipt's number, or the name of a profile")
      ->capture_default_str();
  verb.add_option("--mode", mode, "rules, exhaustive, tables or sound")->capture_default_str();
  verb.add_option("--dtype", request.data_types, "Data types; all when absent")->delimiter(',');
  verb.add_option("--head-dim", head_dims, "Attention: head dims, 128 or 192x128; all when absent")->delimiter(',');
  verb.add_option("--ndim", request.spatial_dims, "Conv: spatial dimensions; those of the rule set when absent")
      ->delimiter(',');
  verb.add_option("--layout", request.layout,
                  "GEMM: layout of A, B and D; all: every one (kernels of CPUs and NVIDIA GPUs)")
      ->capture_default_str();
  const char* sizes = "GEMM on NVIDIA GPUs: only what computes a product of these sizes, as dispatch ranks it";
  verb.add_option("-m", m, "Rows of A")->group(sizes);
  verb.add_option("-n", n, "Columns of B")->group(sizes);
  verb.add_option("-k", k, "Columns of A")->group(sizes);
  verb.add_option("--batch", batch, "Products, or groups (default 1)")->group(sizes);
  verb.add_flag("--unaligned", unaligned, "Pointers or strides are no multiples of 16 bytes")->group(sizes);
  verb.add_option("--rule-set", request.rule_set, "Conv: full, full-tests, tiny or default; GEMM: a preselected set");
  verb.add_option("--filter", request.filters, "Keep what the expression holds for: \"c.hdim_q == 128 and c.lse\"")
      ->allow_extra_args(false);
  verb.add_option("--filter-file", request.filter_files, "The same, from a file")->allow_extra_args(false);
}

Result<Listing> Selection::prepare() const {
  if (request.arch.empty())
    return fail(ErrorCode::invalid_argument, "--arch is missing", "tilesmith arch names the architectures");
  ListRequest asked = request;
  TS_ASSIGN(asked.operation, parse_operation_option(operation));
  if (operation == AttentionBwd::kName) {
    if (!asked.variant.empty() && asked.variant != "bwd")
      return fail(ErrorCode::invalid_argument, fmt::format("--op {} beside --variant {}", operation, asked.variant),
                  "--variant bwd, or --op attention");
    asked.variant = "bwd";
  }
  if (!origin.empty()) {
    TS_ASSIGN(asked.origin, parse_enum<Origin>(origin));
  }
  TS_ASSIGN(asked.mode, parse_enum<EnumerationMode>(mode));
  for (const std::string& text : head_dims) {
    TS_ASSIGN(const auto dims, parse_head_dims(text));
    asked.head_dims.push_back(dims);
  }
  if (m || n || k) {
    if (!m || !n || !k) return fail(ErrorCode::invalid_argument, "some of -m, -n and -k are missing", "all three");
    asked.sizes = GemmSizes{*m, *n, *k, batch.value_or(1), unaligned};
  } else if (batch || unaligned) {
    return fail(ErrorCode::invalid_argument, "--batch and --unaligned go with sizes", "-m, -n and -k");
  }
  warn_of_unused_values(request.arch);
  return Listing::prepare(std::move(asked));
}

std::unexpected<Error> Selection::holds_nothing() const {
  using Change = void (*)(Selection&);
  constexpr std::pair<std::string_view, Change> kOptions[] = {
      {"--dtype", [](Selection& s) { s.request.data_types.clear(); }},
      {"--head-dim", [](Selection& s) { s.head_dims.clear(); }},
      {"--variant", [](Selection& s) { s.request.variant.clear(); }},
      {"--ndim", [](Selection& s) { s.request.spatial_dims.clear(); }},
      {"--filter", [](Selection& s) { s.request.filters.clear(); }},
      {"--filter-file", [](Selection& s) { s.request.filter_files.clear(); }},
      {"--mode", [](Selection& s) { s.mode = Selection().mode; }},
      {"-m, -n and -k", [](Selection& s) { s.m = s.n = s.k = {}; }},
  };
  std::vector<std::string_view> options;
  for (const auto& [option, drop] : kOptions) {
    Selection wider = *this;
    drop(wider);
    if (holds_some(wider)) options.push_back(option);
  }
  return fail(
      ErrorCode::invalid_argument, fmt::format("the selection holds no instance of {} for {}", operation, request.arch),
      options.empty()
          ? std::string("tilesmith list shows what there is")
          : fmt::format("without {} it holds some; tilesmith list shows them", fmt::join(options, ", or without ")));
}

void warn_of_unused_values(std::string_view arch) {
  if (!spec_directory()) return;
  const auto unused = unused_values(arch);
  if (!unused) return;  // whoever needs the facts says what is wrong with them
  for (const UnusedValue& each : *unused)
    log_once(LogLevel::warn, "unused:" + each.where + each.value,
             fmt::format("{}: {} makes no kernel: {}", each.where, each.value, each.refusal));
}

}  // namespace tilesmith::cli
