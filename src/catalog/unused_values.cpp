#include "catalog/unused_values.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "instances/gemm/variants.hpp"
#include "spec/head_dims.hpp"

namespace tilesmith {
namespace {

/// The values of a spec in its order, and what was found out about each.
class Values {
 public:
  using Key = std::pair<const void*, int>;  ///< a row or list of the spec, and the figure in it

  void add(Key key, std::string where, std::string value) {
    at_.emplace(key, values_.size());
    values_.push_back(
        {{std::move(where), std::move(value), "no data type or head dim that is listed asks for it"}, false});
  }
  [[nodiscard]] bool is_used(Key key) const { return values_[at_.at(key)].used; }
  void use(Key key) { values_[at_.at(key)].used = true; }
  template <class Subject>
  void refuse(Key key, const Rule<Subject>& rule, const Subject& subject) {
    Value& value = values_[at_.at(key)];
    if (!value.used)
      value.unused.refusal = fmt::format("rule {} refuses it: {} ({})", rule.name, rule.figures(subject), rule.about);
  }

  [[nodiscard]] std::vector<UnusedValue> unused() const {
    std::vector<UnusedValue> unused;
    for (const Value& value : values_)
      if (!value.used) unused.push_back(value.unused);
    return unused;
  }

 private:
  struct Value {
    UnusedValue unused;
    bool used = false;
  };
  std::vector<Value> values_;
  std::map<Key, std::size_t> at_;
};

/// Signatures that use every tile which any signature uses: traits take registers and memory, so the plain ones tell.
template <class Spec, class Visit>
void plain_attention_signatures(const Spec& spec, std::initializer_list<std::pair<DataType, QuantScale>> kinds,
                                Visit visit) {
  for (const auto& [type, scale] : kinds)
    for (const auto& [qk, v] : listed_head_dims(spec)) {
      AttentionSignature signature;
      signature.data_type = type;
      signature.qscale = scale;
      signature.head_dim_qk = static_cast<std::uint16_t>(qk);
      signature.head_dim_v = static_cast<std::uint16_t>(v);
      for (const BiasKind bias : {BiasKind::none, BiasKind::elementwise}) {
        signature.bias = bias;
        visit(signature);
      }
    }
}

template <class Spec, class Visit>
void gemm_signatures(const Spec& spec, Visit visit) {
  listed_gemm_signatures(spec, "", [&](const GemmSignature& plain) {
    if (!plain.epilogue_ops.empty()) return true;
    for (const auto& [variant, name] : EnumTable<GemmVariant>::kNames)
      for (const GemmSignature& signature : variants_of(plain, variant)) visit(signature);
    return true;
  });
}

void attention_values(const CudaSpec& spec, const std::string& file, Values& values) {
  for (const CudaAttentionPipeline& pipeline : spec.attention_fwd)
    for (std::size_t i = 0; i < pipeline.tiles.size(); ++i) {
      const CudaTile& row = pipeline.tiles[i];
      values.add({&row, 0}, fmt::format("{}, attention_fwd, {}, tile {}", file, name_of(pipeline.pipeline), i),
                 fmt::format("{} x {}", row.tile_m, row.tile_n));
    }
  using enum DataType;
  const int one[] = {1};
  const auto use_tiles = [&](const AttentionSignature& signature) {
    walk_cuda_attention(
        spec, signature, one,
        [&](const KernelConfig& config, const CudaTile& row, const Rule<CudaAttentionSubject>* refused) {
          if (refused == nullptr)
            values.use({&row, 0});
          else
            values.refuse({&row, 0}, *refused, CudaAttentionSubject{config, spec});
          return true;
        });
  };
  // Latent rows first, which no list of head dims has: what a later signature refuses without having used is said.
  AttentionSignature latent;
  latent.data_type = bf16;
  latent.head_dim_qk = 576;
  latent.head_dim_v = 512;
  latent.paged_kv = latent.latent = true;
  for (const KvElements cache : {KvElements::as_queries, KvElements::fp8}) {
    latent.cache = cache;
    use_tiles(latent);
  }
  plain_attention_signatures(
      spec,
      {{bf16, QuantScale::none}, {fp32, QuantScale::none}, {tf32, QuantScale::none}, {fp8bf16, QuantScale::pertensor}},
      use_tiles);
}

/// The rule that refuses every width of access, or null.
const CudaGemmRule* refusal_of_row(KernelConfig& config, const CudaGemmPipeline& pipeline, const CudaGemmTile& row,
                                   const CudaSpec& spec) {
  const auto& signature = std::get<GemmSignature>(config.signature);
  config.algorithm = algorithm_of(signature, pipeline, row);
  const CudaGemmRule* refusal = refusal_of_tile(config, spec);
  if (refusal != nullptr) return refusal;
  for (const CudaGemmWidths& widths : cuda_gemm_widths(signature, pipeline.pipeline)) {
    config.algorithm.vector = widths;
    refusal = refusal_of_access(config, row, spec);
    if (refusal == nullptr) return nullptr;
  }
  return refusal;
}

void gemm_values(const CudaSpec& spec, const std::string& file, Values& values) {
  for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines)
    for (std::size_t i = 0; i < pipeline.tiles.size(); ++i) {
      const CudaGemmTile& row = pipeline.tiles[i];
      values.add({&row, 0}, fmt::format("{}, gemm, {}, tile {}", file, name_of(pipeline.pipeline), i),
                 fmt::format("{} x {}", row.tile_m, row.tile_n));
    }
  gemm_signatures(spec, [&](const GemmSignature& signature) {
    KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
    for (const CudaGemmPipeline& pipeline : spec.gemm.pipelines) {
      if (refusal_of_pipeline(config, pipeline, spec) != nullptr) continue;
      for (const CudaGemmTile& row : pipeline.tiles) {
        if (values.is_used({&row, 0}) || !is_meant_for(signature, pipeline, row)) continue;
        if (const CudaGemmRule* refusal = refusal_of_row(config, pipeline, row, spec))
          values.refuse({&row, 0}, *refusal, CudaGemmSubject{config, spec});
        else
          values.use({&row, 0});
      }
    }
  });
}

void conv_values(const CudaSpec& spec, const std::string& file, Values& values) {
  for (const CudaGemmPipeline& pipeline : spec.conv.pipelines)
    for (std::size_t i = 0; i < pipeline.tiles.size(); ++i) {
      const CudaGemmTile& row = pipeline.tiles[i];
      values.add({&row, 0}, fmt::format("{}, conv, {}, tile {}", file, name_of(pipeline.pipeline), i),
                 fmt::format("{} x {}", row.tile_m, row.tile_n));
    }
  listed_cuda_conv_signatures(spec, [&](const ConvSignature& signature) {
    walk_cuda_conv(spec, signature,
                   [&](const KernelConfig& config, const CudaGemmTile& row, const CudaConvRule* refused) {
                     if (refused == nullptr)
                       values.use({&row, 0});
                     else
                       values.refuse({&row, 0}, *refused, CudaConvSubject{config, spec});
                     return true;
                   });
    return true;
  });
}

/// The figures of CPU tables are lists of each axis.
struct Axis {
  const char* name;
  const std::vector<int>* figures;
};
template <class Tiles>
std::vector<Axis> axes_of(const Tiles& tiles) {
  std::vector<Axis> axes{{"tile_m", &tiles.tile_m}, {"tile_n", &tiles.tile_n}};
  if constexpr (requires { tiles.tile_k; }) axes.push_back({"tile_k", &tiles.tile_k});
  return axes;
}

template <class Instruction>
void add_figures(const std::vector<Instruction>& instructions, const std::string& file, std::string_view operation,
                 Values& values) {
  for (const Instruction& facts : instructions)
    for (const auto& tiles : facts.pipelines)
      for (const Axis& axis : axes_of(tiles))
        for (const int figure : *axis.figures)
          values.add({axis.figures, figure},
                     fmt::format("{}, {}, {}, {}, {}", file, operation, name_of(facts.instruction),
                                 name_of(tiles.pipeline), axis.name),
                     fmt::format("{}", figure));
}

template <class Instruction, class Subject>
void judge(const std::vector<Instruction>& instructions, const Subject& subject, const Rule<Subject>* refused,
           Values& values) {
  const Algorithm& algorithm = subject.config.algorithm;
  for (const Instruction& facts : instructions)
    for (const auto& tiles : facts.pipelines) {
      if (facts.instruction != algorithm.instruction || tiles.pipeline != algorithm.pipeline) continue;
      const std::vector<Axis> axes = axes_of(tiles);
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const Values::Key key{axes[i].figures, algorithm.tile[i]};
        if (refused == nullptr)
          values.use(key);
        else
          values.refuse(key, *refused, subject);
      }
    }
}

}  // namespace

std::vector<UnusedValue> unused_values(const CudaSpec& spec) {
  const std::string file = fmt::format("cuda/{}.json", spec.arch.text());
  Values values;
  attention_values(spec, file, values);
  gemm_values(spec, file, values);
  conv_values(spec, file, values);
  return values.unused();
}

std::vector<UnusedValue> unused_values(const CpuSpec& spec) {
  const std::string file = fmt::format("cpu/{}.json", spec.arch.text());
  Values values;
  add_figures(spec.attention_fwd, file, "attention_fwd", values);
  add_figures(spec.attention_bwd, file, "attention_bwd", values);
  add_figures(spec.gemm, file, "gemm", values);
  using enum DataType;
  plain_attention_signatures(
      spec, {{bf16, QuantScale::none}, {fp16, QuantScale::none}, {fp32, QuantScale::none}},
      [&](const AttentionSignature& signature) {
        walk_cpu_attention(spec, signature, [&](const KernelConfig& config, const Rule<CpuAttentionSubject>* refused) {
          judge(spec.attention_fwd, CpuAttentionSubject{config, spec}, refused, values);
          return true;
        });
        walk_cpu_attention_backward(
            spec, signature, [&](const KernelConfig& config, const Rule<CpuAttentionBackwardSubject>* refused) {
              judge(spec.attention_bwd, CpuAttentionBackwardSubject{config, spec}, refused, values);
              return true;
            });
      });
  gemm_signatures(spec, [&](const GemmSignature& signature) {
    walk_cpu_gemm(spec, signature, [&](const KernelConfig& config, const Rule<CpuGemmSubject>* refused) {
      judge(spec.gemm, CpuGemmSubject{config, spec}, refused, values);
      return true;
    });
  });
  return values.unused();
}

Result<std::vector<UnusedValue>> unused_values(std::string_view arch) {
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& spec : levels)
    if (spec.arch.text() == arch) return unused_values(spec);
  TS_ASSIGN(const std::vector<CudaSpec> specs, load_cuda_specs());
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == arch) return unused_values(spec);
  return std::vector<UnusedValue>{};
}

}  // namespace tilesmith
