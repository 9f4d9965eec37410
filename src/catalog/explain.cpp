#include "catalog/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "catalog/explain_backend.hpp"
#include "catalog/listing.hpp"
#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/attention/hip.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/attention_backward/cuda.hpp"
#include "instances/attention_backward/families.hpp"
#include "instances/conv/cpu.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/hip.hpp"
#include "instances/gemm/variants.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/field_table.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

/// Visits the fields in which two configs of one operation differ; the visitor returns false to stop.
template <class Visit>
void visit_differences(const KernelConfig& a, const KernelConfig& b, Visit&& visit) {
  bool go = true;
  const auto walk = [&](const std::vector<FieldInfo>& fields, const void* left, const void* right, bool of_signature) {
    const auto* l = static_cast<const unsigned char*>(left);
    const auto* r = static_cast<const unsigned char*>(right);
    for (const FieldInfo& field : fields) {
      const std::size_t bytes = std::size_t{field.size} * field.count;
      if (go && std::memcmp(l + field.offset, r + field.offset, bytes) != 0)
        go = visit(field, left, right, of_signature);
    }
  };
  std::visit(
      [&](const auto& left) {
        using S = std::remove_cvref_t<decltype(left)>;
        walk(field_table<S>(), &left, &std::get<S>(b.signature), true);
      },
      a.signature);
  walk(field_table<Algorithm>(), &a.algorithm, &b.algorithm, false);
}

std::string shown(const FieldInfo& field, const void* object) {
  if (field.kind == FieldKind::enumeration)
    return std::string(field.value_names[static_cast<std::size_t>(read_field(field, object))]);
  std::string out;
  if (field.kind == FieldKind::list) {
    append_list(out, field, object);
    return out.empty() ? "nothing" : out;
  }
  for (std::size_t i = 0; i < field.count; ++i) {
    if (i > 0) out += 'x';
    append_integer(out, read_field(field, object, i));
  }
  return out;
}

/// What a kernel computes weighs more than how; the type and the head dims weigh most, for another one is no
/// substitute.
double weight(std::string_view field, bool of_signature) {
  for (const std::string_view heavy :
       {"family", "data_type", "head_dim_qk", "head_dim_v", "mode", "a", "b", "direction", "spatial_dims"})
    if (field == heavy && of_signature) return 64;
  // Waves follow from the tile and the fragment.
  if (field == "wave") return 0.01;
  return of_signature ? 8 : 1;
}

nlohmann::json verdicts_json(const std::vector<RuleVerdict>& verdicts) {
  nlohmann::json out = nlohmann::json::array();
  for (const RuleVerdict& v : verdicts)
    out.push_back({{"rule", v.rule}, {"accepts", v.accepted}, {"figures", v.figures}, {"about", v.about}});
  return out;
}

bool all_accept(const std::vector<RuleVerdict>& verdicts) {
  return std::ranges::all_of(verdicts, [](const RuleVerdict& verdict) { return verdict.accepted; });
}

void append_verdicts(std::string& out, const std::vector<RuleVerdict>& verdicts) {
  for (const RuleVerdict& v : verdicts) {
    out += fmt::format("  {} {:36} {}\n", v.accepted ? "pass  " : "REFUSE", v.rule, v.figures);
    if (!v.accepted) out += fmt::format("         {}\n", v.about);
  }
}

Result<std::vector<Explanation>> explain_amd(const KernelConfig& config, std::string_view arch) {
  const auto& chips = amd_chips();
  if (!chips) return std::unexpected(chips.error());
  if (!arch.empty()) {
    TS_ASSIGN(const AmdChip* chip, find_amd_chip(arch));
    TS_ASSIGN(Explanation one, explain_amd_instance(*chip, config));
    return std::vector<Explanation>{std::move(one)};
  }
  std::vector<Explanation> out;
  for (const AmdChip& chip : *chips) {
    auto one = explain_amd_instance(chip, config);
    if (one)
      out.push_back(std::move(*one));
    else if (one.error().code != ErrorCode::unsupported)
      return std::unexpected(one.error());
  }
  return out;
}

Result<std::vector<Explanation>> explain_native(const KernelConfig& config, std::string_view arch) {
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  const std::string_view wanted = arch.empty() ? config.arch.text() : arch;
  for (const CpuSpec& level : levels) {
    if (level.arch.text() != wanted) continue;
    TS_ASSIGN(Explanation one, config.operation() == Operation::gemm   ? explain_cpu_gemm(level, config)
                               : config.operation() == Operation::conv ? explain_cpu_conv(level, config)
                                                                       : explain_cpu_attention(level, config));
    return std::vector<Explanation>{std::move(one)};
  }
  TS_ASSIGN(const std::vector<CudaSpec> cuda, load_cuda_specs());
  for (const CudaSpec& spec : cuda) {
    if (spec.arch.text() != wanted) continue;
    TS_ASSIGN(Explanation one, config.operation() == Operation::gemm   ? explain_cuda_gemm(spec, config)
                               : config.operation() == Operation::conv ? explain_cuda_conv(spec, config)
                                                                       : explain_cuda_attention(spec, config));
    return std::vector<Explanation>{std::move(one)};
  }
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip) {
    if (spec.arch.text() != wanted) continue;
    TS_ASSIGN(Explanation one, config.operation() == Operation::attention ? explain_hip_attention(spec, config)
                                                                          : explain_hip_gemm(spec, config));
    return std::vector<Explanation>{std::move(one)};
  }
  TS_ASSIGN(const std::vector<std::string> archs, known_archs());
  return fail(ErrorCode::invalid_argument, fmt::format("no instances are known for \"{}\"", wanted.substr(0, 64)),
              did_you_mean(wanted, archs));
}

}  // namespace

bool Explanation::is_listed() const {
  return all_accept(listed) && on_demand.empty();
}
bool Explanation::is_sound() const {
  return all_accept(listed) && all_accept(sound);
}

double config_distance(const KernelConfig& a, const KernelConfig& b, double enough) {
  double distance = 0;
  visit_differences(a, b, [&](const FieldInfo& field, const void* left, const void* right, bool of_signature) {
    for (std::size_t i = 0; i < field.count; ++i) {
      const std::int64_t mine = read_field(field, left, i), theirs = read_field(field, right, i);
      if (mine == theirs) continue;
      const bool is_figure = field.kind == FieldKind::array && mine > 0 && theirs > 0;
      distance += weight(field.name, of_signature) *
                  (is_figure ? std::abs(std::log2(static_cast<double>(mine) / static_cast<double>(theirs))) : 1.0);
    }
    return distance < enough;
  });
  return distance;
}

std::vector<std::string> config_changes(const KernelConfig& mine, const KernelConfig& theirs) {
  std::vector<std::string> out;
  visit_differences(mine, theirs, [&](const FieldInfo& field, const void* left, const void* right, bool) {
    out.push_back(fmt::format("{}: {} -> {}", field.name, shown(field, left), shown(field, right)));
    return true;
  });
  return out;
}

void find_nearest(Explanation& explanation, const std::function<void(ConfigSink)>& walk) {
  if (explanation.is_sound()) return;
  double best = std::numeric_limits<double>::infinity();
  KernelConfig nearest;
  walk([&](const KernelConfig& candidate) {
    const double distance = config_distance(explanation.config, candidate, best);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
    return true;
  });
  if (!std::isfinite(best)) return;
  explanation.nearest = kernel_name(nearest);
  explanation.changes = config_changes(explanation.config, nearest);
}

Result<Explanation> explain_amd_instance(const AmdChip& chip, const KernelConfig& config) {
  switch (config.operation()) {
    case Operation::attention:
      return explain_amd_attention(chip, config);
    case Operation::gemm:
      return explain_amd_gemm(chip, config);
    case Operation::conv:
      return explain_amd_conv(chip, config);
  }
  return fail(ErrorCode::internal, "a config of no operation");
}

namespace {

/// Rules say which kernels would be right; the list holds those whose tile the tables of the facts name. `walk` goes
/// over the instances of the config's signature.
void check_is_in_table(Explanation& explanation, std::string_view specs, const std::function<void(ConfigSink)>& walk) {
  if (!all_accept(explanation.listed)) return;
  bool found = false;
  walk([&](const KernelConfig& instance) {
    found = instance == explanation.config;
    return !found;
  });
  explanation.listed.push_back(
      {.rule = "tile_is_in_table",
       .about = "the kernel would be right, but no table of the architecture's facts names it, so it is not listed",
       .accepted = found,
       .figures = fmt::format("{}/{}.json", specs, explanation.config.arch.text())});
}

/// Listings hold a choice of signatures, of which each has many instances.
template <class Spec>
bool is_listed_signature(const Spec& spec, const AttentionSignature& wanted) {
  bool found = false;
  const auto look = [&](const AttentionSignature& signature) {
    found = signature == wanted;
    return !found;
  };
  if constexpr (requires { listed_backward_signatures(spec, look); }) {
    if (wanted.family == AttentionFamily::bwd_dq_dk_dv) {
      listed_backward_signatures(spec, look);
      return found;
    }
  }
  listed_attention_signatures(spec, look);
  return found;
}
template <class Spec>
bool is_listed_signature(const Spec& spec, const GemmSignature& wanted) {
  bool found = false;
  listed_gemm_signatures(spec, "", [&](const GemmSignature& plain) {
    for (const auto& [variant, name] : EnumTable<GemmVariant>::kNames)
      for (const GemmSignature& signature : variants_of(plain, variant)) found = found || signature == wanted;
    return !found;
  });
  return found;
}

bool is_listed_signature(const CudaSpec& spec, const ConvSignature& wanted) {
  bool found = false;
  listed_cuda_conv_signatures(spec, [&](const ConvSignature& one) {
    found = found || one == wanted;
    return !found;
  });
  return found;
}

template <class Spec, class Signature>
void check_is_listed(Explanation& explanation, const Spec& spec, const Signature& signature) {
  if (!all_accept(explanation.listed) || explanation.config.algorithm.pipeline == Pipeline::generic) return;
  if (!is_listed_signature(spec, signature))
    explanation.on_demand =
        "lists hold the usual head dims, types of results, epilogues and traits, and this signature is none of them";
}

Status only_attention(const KernelConfig& config, const ArchName& arch) {
  if (config.operation() == Operation::attention) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("{} instances are not enumerated for {}", name_of(config.operation()), arch.text()));
}

}  // namespace

static Explanation explain_cuda_backward(const CudaSpec& spec, const KernelConfig& config) {
  Explanation out;
  out.config = config;
  out.listed = verdicts(cuda_backward_rules(), CudaBackwardSubject{config, spec});
  const bool is_products = config.attention().family == AttentionFamily::bwd_dq_dk_dv;
  // Of the products' signature every tile; of the kernels around them those of every listed signature.
  const auto walk = [&](ConfigSink sink) {
    if (!is_products) return enumerate_cuda_backward(spec, sink);
    walk_cuda_backward(spec, config.attention(),
                       [&](const KernelConfig& one, const CudaBackwardTile&, const auto* refused) {
                         return refused != nullptr || sink(one);
                       });
  };
  check_is_in_table(out, "specs/cuda", walk);
  if (is_products) check_is_listed(out, spec, config.attention());
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cpu_attention(const CpuSpec& spec, KernelConfig config) {
  TS_TRY(only_attention(config, spec.arch));
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  if (is_attention_backward(config)) {
    out.listed = verdicts(cpu_attention_backward_rules(), CpuAttentionBackwardSubject{config, spec});
    const auto walk = [&](ConfigSink sink) { enumerate_cpu_attention_backward(spec, config.attention(), sink); };
    check_is_in_table(out, "specs/cpu", walk);
    check_is_listed(out, spec, config.attention());
    find_nearest(out, walk);
    return out;
  }
  out.listed = verdicts(cpu_attention_rules(), CpuAttentionSubject{config, spec});
  // Tiles are what a caller can change; the signature is what it needs.
  const auto walk = [&](ConfigSink sink) { enumerate_cpu_attention(spec, config.attention(), sink); };
  check_is_in_table(out, "specs/cpu", walk);
  check_is_listed(out, spec, config.attention());
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cpu_gemm(const CpuSpec& spec, KernelConfig config) {
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  out.listed = verdicts(cpu_gemm_rules(), CpuGemmSubject{config, spec});
  const auto walk = [&](ConfigSink sink) { enumerate_cpu_gemm(spec, std::get<GemmSignature>(config.signature), sink); };
  check_is_in_table(out, "specs/cpu", walk);
  check_is_listed(out, spec, std::get<GemmSignature>(config.signature));
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cpu_conv(const CpuSpec& spec, KernelConfig config) {
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  out.listed = verdicts(cpu_conv_rules(), CpuConvSubject{config, spec});
  const auto walk = [&](ConfigSink sink) { enumerate_cpu_conv(spec, sink); };
  check_is_in_table(out, "specs/cpu", walk);
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cuda_attention(const CudaSpec& spec, KernelConfig config) {
  TS_TRY(only_attention(config, spec.arch));
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  if (is_attention_backward(config)) return explain_cuda_backward(spec, config);
  out.listed = verdicts(cuda_attention_rules(), CudaAttentionSubject{config, spec});
  const int packed[] = {config.algorithm.pack_gqa, 1};
  const auto walk = [&](ConfigSink sink) { enumerate_cuda_attention(spec, config.attention(), packed, sink); };
  check_is_in_table(out, "specs/cuda", walk);
  check_is_listed(out, spec, config.attention());
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cuda_conv(const CudaSpec& spec, KernelConfig config) {
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  out.listed = cuda_conv_verdicts({config, spec});
  const auto walk = [&](ConfigSink sink) {
    walk_cuda_conv(spec, std::get<ConvSignature>(config.signature),
                   [&](const KernelConfig& one, const CudaGemmTile&, const CudaConvRule* refused) {
                     return refused != nullptr || sink(one);
                   });
  };
  check_is_in_table(out, "specs/cuda", walk);
  check_is_listed(out, spec, std::get<ConvSignature>(config.signature));
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_cuda_gemm(const CudaSpec& spec, KernelConfig config) {
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  out.listed = verdicts(cuda_gemm_rules(), CudaGemmSubject{config, spec});
  const auto walk = [&](ConfigSink sink) {
    enumerate_cuda_gemm(spec, std::get<GemmSignature>(config.signature), sink);
  };
  check_is_in_table(out, "specs/cuda", walk);
  check_is_listed(out, spec, std::get<GemmSignature>(config.signature));
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_hip_attention(const HipSpec& spec, KernelConfig config) {
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  out.listed = verdicts(hip_attention_rules(), HipAttentionSubject{config, spec});
  const auto walk = [&](ConfigSink sink) { enumerate_hip_attention(spec, config.attention(), sink); };
  check_is_in_table(out, "specs/hip", walk);
  AttentionSignature forward = config.attention();  // a join is listed beside the kernel whose results it joins
  if (forward.family == AttentionFamily::fwd_splitkv_combine) forward.family = AttentionFamily::fwd;
  check_is_listed(out, spec, forward);
  find_nearest(out, walk);
  return out;
}

Result<Explanation> explain_hip_gemm(const HipSpec& spec, KernelConfig config) {
  if (config.operation() != Operation::gemm)
    return fail(ErrorCode::unsupported, fmt::format("own {} instances are not enumerated for {}",
                                                    name_of(config.operation()), spec.arch.text()));
  config.arch = spec.arch;
  Explanation out;
  out.config = config;
  const auto& signature = std::get<GemmSignature>(config.signature);
  out.listed = verdicts(hip_gemm_rules(), HipGemmSubject{config, spec});
  const auto walk = [&](ConfigSink sink) { enumerate_hip_gemm(spec, signature, sink); };
  check_is_in_table(out, "specs/hip", walk);
  check_is_listed(out, spec, signature);
  find_nearest(out, walk);
  return out;
}

Result<std::vector<Explanation>> explain(std::string_view name, std::string_view arch) {
  TS_ASSIGN(const KernelConfig config, parse_kernel_name(name));
  return config.origin == Origin::own ? explain_native(config, arch) : explain_amd(config, arch);
}

std::string explanation_text(const Explanation& explanation) {
  std::string out = fmt::format("{} on {}: {}\n", kernel_name(explanation.config), explanation.config.arch.text(),
                                !explanation.on_demand.empty() ? "not listed, made on demand"
                                : explanation.is_sound()       ? "listed and sound"
                                : explanation.is_listed()      ? "listed, but not sound"
                                                               : "not listed");
  if (!explanation.on_demand.empty()) out += fmt::format("  {}\n", explanation.on_demand);
  append_verdicts(out, explanation.listed);
  if (!explanation.sound.empty()) {
    out += " validator and silicon\n";
    append_verdicts(out, explanation.sound);
  }
  if (!explanation.receipts.empty()) out += fmt::format(" receipts {}\n", fmt::join(explanation.receipts, ", "));
  if (explanation.nearest) {
    out += fmt::format(" nearest sound instance {}\n", *explanation.nearest);
    for (const std::string& change : explanation.changes) out += fmt::format("  {}\n", change);
  }
  return out;
}

std::string explanations_json(const std::vector<Explanation>& explanations) {
  nlohmann::json out = nlohmann::json::array();
  for (const Explanation& each : explanations) {
    nlohmann::json one = to_json(each.config);
    one["name"] = kernel_name(each.config);
    one["key"] = key_of(each.config).hex();
    one["is_listed"] = each.is_listed();
    one["is_sound"] = each.is_sound();
    one["listed"] = verdicts_json(each.listed);
    one["sound"] = verdicts_json(each.sound);
    if (!each.on_demand.empty()) one["on_demand"] = each.on_demand;
    one["receipts"] = each.receipts;
    if (each.nearest) one["nearest"] = {{"name", *each.nearest}, {"changes", each.changes}};
    out.push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

}  // namespace tilesmith
