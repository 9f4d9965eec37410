#include "catalog/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "base/nearest.hpp"
#include "catalog/filter.hpp"
#include "catalog/listing_plan.hpp"
#include "spec/architectures.hpp"

namespace tilesmith {

struct Listing::Plan {
  ListingPlan walk;
  std::optional<Filter> filter;
};

namespace {

/// The part of a config that --stats counts by.
std::size_t family_index(const KernelConfig& config) {
  return std::visit(
      [](const auto& s) -> std::size_t {
        if constexpr (requires { s.family; })
          return static_cast<std::size_t>(s.family);
        else
          return static_cast<std::size_t>(s.direction);
      },
      config.signature);
}
std::string_view family_name(Operation operation, std::size_t index) {
  switch (operation) {
    case Operation::attention:
      return name_of(static_cast<AttentionFamily>(index));
    case Operation::gemm:
      return name_of(static_cast<GemmFamily>(index));
    case Operation::conv:
      return name_of(static_cast<ConvDirection>(index));
  }
  return {};
}

}  // namespace

Result<std::vector<DataType>> parse_data_types(const std::vector<std::string>& names) {
  std::vector<DataType> types;
  for (const std::string& name : names) {
    TS_ASSIGN(const DataType type, parse_enum<DataType>(name));
    types.push_back(type);
  }
  return types;
}

Listing::Listing(ListRequest request, std::unique_ptr<Plan> plan)
    : request_(std::move(request)), plan_(std::move(plan)) {}
Listing::Listing(Listing&&) noexcept = default;
Listing& Listing::operator=(Listing&&) noexcept = default;
Listing::~Listing() = default;

/// Options that mean nothing to the operation or the architecture would otherwise be passed over in silence.
static Status check_options(const ListRequest& request, bool is_amd) {
  const auto refuse = [](std::string_view option, std::string_view where) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is given, which is for {} only", option, where),
                "leave it out");
  };
  const bool attention = request.operation == Operation::attention;
  if (!request.sweep_file.empty() && !(attention && is_amd))
    return refuse("a sweep file", "attention on AMD architectures");
  if (request.receipt != "0" && !(attention && is_amd)) return refuse("a receipt", "attention on AMD architectures");
  if (!request.head_dims.empty() && !attention) return refuse("a head dim", "attention");
  if (!request.spatial_dims.empty() && request.operation != Operation::conv)
    return refuse("a number of spatial dimensions", "conv");
  if (!request.rule_set.empty() && (attention || !is_amd))
    return refuse("a rule set", "gemm and conv on AMD architectures");
  const bool any_tile = request.operation == Operation::gemm && request.mode == EnumerationMode::exhaustive;
  if (request.mode != EnumerationMode::rules && !is_amd && !any_tile)
    return refuse(fmt::format("mode {}", name_of(request.mode)), "AMD architectures");
  if (request.sizes && (is_amd || request.operation != Operation::gemm)) return refuse("a size", "GEMM on NVIDIA GPUs");
  return {};
}

/// Fills in the plan when Tilesmith has own kernels for the request's architecture; returns whether it has.
static Result<bool> plan_own(const ListRequest& request, ListingPlan& plan) {
  const auto unknown = [&](std::string_view known) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} kernels are not enumerated for {}", name_of(request.operation), request.arch),
                std::string(known));
  };
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& level : levels) {
    if (level.arch.text() != request.arch) continue;
    TS_TRY(check_options(request, false));
    TS_ASSIGN(plan, request.operation == Operation::gemm   ? plan_cpu_gemm(level, request)
                    : request.operation == Operation::conv ? plan_cpu_conv(level, request)
                                                           : plan_cpu_attention(level, request));
    return true;
  }
  TS_ASSIGN(const std::vector<CudaSpec> cuda, load_cuda_specs());
  for (const CudaSpec& spec : cuda) {
    if (spec.arch.text() != request.arch) continue;
    TS_TRY(check_options(request, false));
    TS_ASSIGN(plan, request.operation == Operation::gemm   ? plan_cuda_gemm(spec, request)
                    : request.operation == Operation::conv ? plan_cuda_conv(spec, request)
                                                           : plan_cuda_attention(spec, request));
    return true;
  }
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip) {
    if (spec.arch.text() != request.arch) continue;
    TS_TRY(check_options(request, false));
    if (request.operation == Operation::conv) return unknown("--op attention or gemm, or --origin ck");
    TS_ASSIGN(plan,
              request.operation == Operation::gemm ? plan_hip_gemm(spec, request) : plan_hip_attention(spec, request));
    return true;
  }
  return false;
}

/// The plan of Composable Kernel's instances.
static Result<ListingPlan> plan_ck(const AmdChip& chip, const ListRequest& request) {
  TS_TRY(check_options(request, true));
  switch (request.operation) {
    case Operation::attention:
      return plan_amd_attention(chip, request);
    case Operation::gemm:
      return plan_amd_gemm(chip, request);
    case Operation::conv:
      return plan_amd_conv(chip, request);
  }
  return fail(ErrorCode::internal, "a request for no operation");
}

/// The plan of the request's origin. An error says which kernels there are for the architecture instead.
static Result<ListingPlan> plan_of(const ListRequest& request) {
  const auto chip = find_amd_chip(request.arch);
  if (!chip && chip.error().code != ErrorCode::not_found) return std::unexpected(chip.error());
  if (chip && request.origin.value_or(Origin::ck) == Origin::ck) return plan_ck(**chip, request);
  ListingPlan plan;
  TS_ASSIGN(const bool has_own, plan_own(request, plan));
  if (has_own && request.origin.value_or(Origin::own) == Origin::own) return plan;
  const auto other_origin = [&](std::string_view kernels, Origin instead) {
    return fail(ErrorCode::not_found, fmt::format("there are no {} for {}", kernels, request.arch),
                fmt::format("origin {}, which {} has", name_of(instead), request.arch));
  };
  if (has_own) return other_origin("instances of Composable Kernel", Origin::own);
  if (chip) return other_origin("own kernels", Origin::ck);
  TS_ASSIGN(const std::vector<std::string> archs, known_archs());
  const std::string near = did_you_mean(request.arch, archs);
  return fail(ErrorCode::invalid_argument,
              fmt::format("\"{}\" is no architecture that instances are known for", request.arch.substr(0, 64)),
              near.empty() ? "tilesmith arch names the architectures" : near);
}

Result<Listing> Listing::prepare(ListRequest request) {
  // First: a file that is not there is no reason to look into what the file would not go with.
  if (std::error_code code; !request.sweep_file.empty() && !std::filesystem::exists(request.sweep_file, code))
    return fail(ErrorCode::not_found, fmt::format("cannot open {}: no such file", request.sweep_file), "a sweep file");
  auto plan = std::make_unique<Plan>();
  TS_ASSIGN(plan->walk, plan_of(request));
  std::vector<std::string> expressions = request.filters;
  for (const std::string& path : request.filter_files) {
    TS_ASSIGN(std::string expression, read_filter_file(path));
    expressions.push_back(std::move(expression));
  }
  if (!expressions.empty()) {
    TS_ASSIGN(plan->filter, Filter::compile_all(expressions, request.operation));
  }
  return Listing(std::move(request), std::move(plan));
}

Status Listing::walk(ConfigSink sink, ListStatistics& statistics) const {
  statistics = {};
  std::array<std::uint64_t, 32> families{};
  Status status;

  const auto send = [&](const KernelConfig& config) {
    ++statistics.listed;
    ++families[family_index(config)];
    return sink(config);
  };
  // SQLite reads rows a batch at a time; the batch bounds the memory and stays in the cache.
  constexpr std::size_t kBatch = 512;
  std::vector<KernelConfig> batch;
  std::vector<bool> keep;
  bool more = true;
  const auto flush = [&] {
    status = plan_->filter->select(batch, keep);
    for (std::size_t i = 0; i < batch.size() && more && status; ++i) {
      if (keep[i])
        more = send(batch[i]);
      else
        ++statistics.filtered;
    }
    batch.clear();
    return more && status.has_value();
  };
  const auto drop = [&](std::string_view rule) {
    const auto found = std::ranges::find(statistics.dropped, rule, &ListStatistics::Dropped::rule);
    if (found != statistics.dropped.end())
      ++found->count;
    else
      statistics.dropped.push_back({std::string(rule), 1});
  };
  plan_->walk.enumerate([&](const KernelConfig& config) {
    ++statistics.enumerated;
    if (plan_->walk.refusal) {
      if (const std::string_view rule = plan_->walk.refusal(config); !rule.empty()) {
        drop(rule);
        return true;
      }
    }
    if (plan_->walk.in_profile && !plan_->walk.in_profile(config)) {
      drop("profile");
      return true;
    }
    if (!plan_->filter) return more = send(config);
    batch.push_back(config);
    return batch.size() < kBatch || flush();
  });
  if (plan_->filter && more && status) flush();
  for (std::size_t i = 0; i < families.size(); ++i)
    if (families[i] > 0) statistics.families.emplace_back(family_name(request_.operation, i), families[i]);
  std::ranges::stable_sort(statistics.dropped, [](const auto& a, const auto& b) { return a.count > b.count; });
  return status;
}

}  // namespace tilesmith
