#include "instances/gemm/ck.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

/// The letters of a layout, "rcr"; the request was checked before.
void set_layout(GemmSignature& signature, std::string_view layout) {
  const auto order = [](char letter) { return letter == 'r' ? MatrixOrder::row : MatrixOrder::column; };
  signature.layout_a = order(layout[0]);
  signature.layout_b = order(layout[1]);
  signature.layout_c = order(layout[2]);
}

class Walk {
 public:
  Walk(const AmdGemmQuery& query, GemmFamily family, ConfigSink sink)
      : query_(query), family_(query.spec.families[static_cast<std::size_t>(family)]), kind_(family), sink_(sink) {
    config_.origin = Origin::ck;
    config_.arch = query.chip.arch;
    config_.signature = GemmSignature{};
    signature().family = family;
    set_layout(signature(), query.layout);
    config_.algorithm.preshuffle = family == GemmFamily::preshuffle;
    if (query.mode == EnumerationMode::exhaustive) {
      // Exhaustive lists look at nothing but whole tiles and schedulers a pipeline has.
      tile_rules_ = {};
      trait_rules_ = trait_rules_.first<1>();
    }
  }

  void sweep() {
    if (std::ranges::find(family_.layouts, query_.layout) == family_.layouts.end()) return;
    for (const DataType type : data_types()) {
      signature().a = signature().b = type;
      signature().c = gemm_output_type(type);
      signature().accumulator = gemm_accumulator_type(type);
      tiles();
      if (!go_) return;
    }
  }

  void preselected() {
    for (const AmdGemmSpec::PreselectedSet& set : query_.spec.preselected) {
      if (!query_.preselected.empty() && set.name != query_.preselected) continue;
      if (!query_.data_types.empty() && std::ranges::find(query_.data_types, set.data_type) == query_.data_types.end())
        continue;
      for (const auto& kernel : set.kernels) {
        if (kernel.family != kind_) continue;
        send(set, kernel);
        if (!go_) return;
      }
    }
  }

 private:
  GemmSignature& signature() { return std::get<GemmSignature>(config_.signature); }
  bool send() { return go_ = sink_(config_); }

  [[nodiscard]] std::vector<DataType> data_types() const {
    std::vector<DataType> out;
    for (const DataType type : family_.data_types) {
      const bool named = std::ranges::find(query_.data_types, type) != query_.data_types.end();
      const bool has_fragments =
          query_.chip.fragments_of(type, type, gemm_accumulator_type(type), kind_ == GemmFamily::preshuffle) != nullptr;
      if (query_.data_types.empty() ? has_fragments : named) out.push_back(type);
    }
    return out;
  }

  void tiles() {
    const auto& [tile, waves, fragment] = query_.spec.sweep;
    Algorithm& a = config_.algorithm;
    std::array<std::size_t, 9> at{};
    const auto axis = [&](std::size_t i) -> const std::vector<int>& {
      return i < 3 ? tile[i] : i < 6 ? waves[i - 3] : fragment[i - 6];
    };
    for (bool more = true; more && go_;) {
      for (std::size_t i = 0; i < 9; ++i) {
        const auto figure = static_cast<std::uint16_t>(axis(i)[at[i]]);
        (i < 3 ? a.tile[i] : i < 6 ? a.wave[i - 3] : a.warp[i - 6]) = figure;
      }
      const auto whole = [&](std::size_t i) { return a.tile[i] % (a.wave[i] * a.warp[i]) == 0; };
      if (whole(0) && whole(1) && whole(2) && passes(tile_rules_)) traits();
      more = false;
      for (std::size_t i = 9; i-- > 0 && !more;) {
        more = ++at[i] < axis(i).size();
        if (!more) at[i] = 0;
      }
    }
  }

  void traits() {
    Algorithm& a = config_.algorithm;
    for (const Pipeline pipeline : family_.pipelines)
      for (const Epilogue epilogue : family_.epilogues)
        for (const Scheduler scheduler : family_.schedulers) {
          a.pipeline = pipeline;
          a.epilogue = epilogue;
          a.scheduler = scheduler;
          if (!passes(trait_rules_)) continue;
          for (const bool persistent : {false, true}) {
            a.persistent = persistent;
            variants();
            if (!go_) return;
          }
        }
  }

  [[nodiscard]] bool passes(AmdGemmRules rules) const {
    return first_refusal(rules, AmdGemmSubject{config_, query_.chip, query_.spec}) == nullptr;
  }

  void variants() {
    switch (kind_) {
      case GemmFamily::multi_d:
        for (const ElementwiseKind operation : family_.elementwise)
          for (const int count : family_.num_d) {
            signature().elementwise = operation;
            signature().num_d = static_cast<std::uint8_t>(count);
            if (!send()) return;
          }
        break;
      case GemmFamily::stream_k:
        for (const StreamKReduction reduction : family_.reductions) {
          signature().stream_k_reduction = reduction;
          if (!send()) return;
        }
        break;
      default:
        send();
        break;
    }
  }

  void send(const AmdGemmSpec::PreselectedSet& set, const AmdGemmSpec::PreselectedKernel& kernel) {
    signature().a = signature().b = set.data_type;
    signature().c = set.output;
    signature().accumulator = gemm_accumulator_type(set.data_type);
    signature().elementwise = kernel.elementwise;
    signature().num_d = static_cast<std::uint8_t>(kernel.num_d);
    Algorithm& a = config_.algorithm;
    for (std::size_t i = 0; i < 3; ++i) {
      a.tile[i] = kernel.tile[i];
      a.wave[i] = kernel.wave[i];
      a.warp[i] = kernel.warp[i];
      a.pad[i] = kernel.pad ? 1 : 0;
    }
    a.pipeline = kernel.pipeline;
    a.epilogue = kernel.epilogue;
    a.scheduler = kernel.scheduler;
    a.persistent = kernel.persistent;
    send();
  }

  const AmdGemmQuery& query_;
  const AmdGemmSpec::Family& family_;
  GemmFamily kind_;
  ConfigSink sink_;
  AmdGemmRules tile_rules_ = amd_gemm_tile_rules();
  AmdGemmRules trait_rules_ = amd_gemm_trait_rules();
  KernelConfig config_;
  bool go_ = true;
};

}  // namespace

void enumerate_amd_gemm(const AmdGemmQuery& query, GemmFamily family, ConfigSink sink) {
  Walk walk(query, family, sink);
  if (query.mode == EnumerationMode::tables || !query.preselected.empty())
    walk.preselected();
  else
    walk.sweep();
}

}  // namespace tilesmith
