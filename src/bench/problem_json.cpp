#include "bench/problem_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernel/data_type.hpp"
#include "kernel/traits.hpp"

namespace tilesmith {

nlohmann::json to_json(const AttentionProblem& p) {
  return {{"data_type", name_of(p.data_type)},
          {"mode", name_of(p.mode)},
          {"batch", p.batch},
          {"heads_q", p.heads_q},
          {"heads_kv", p.heads_kv},
          {"seqlen_q", p.seqlen_q},
          {"seqlen_k", p.seqlen_k},
          {"head_dim_qk", p.head_dim_qk},
          {"head_dim_v", p.head_dim_v},
          {"mask", name_of(p.mask)},
          {"window", {p.window_left, p.window_right}},
          {"bias", name_of(p.bias)},
          {"soft_cap", p.soft_cap},
          {"sink", p.sink},
          {"dropout", p.dropout},
          {"lse", p.lse}};
}

std::string describe(const AttentionProblem& p) {
  std::string out = fmt::format("{} b{} ", name_of(p.data_type), p.batch);
  out += p.heads_q == p.heads_kv ? fmt::format("h{} ", p.heads_q) : fmt::format("h{}/{} ", p.heads_q, p.heads_kv);
  out += p.seqlen_q == p.seqlen_k ? fmt::format("s{} ", p.seqlen_q) : fmt::format("s{}x{} ", p.seqlen_q, p.seqlen_k);
  out += p.head_dim_qk == p.head_dim_v ? fmt::format("d{}", p.head_dim_qk)
                                       : fmt::format("d{}/{}", p.head_dim_qk, p.head_dim_v);
  if (p.mode == SequenceMode::group) out += " group";
  if (p.mask != MaskKind::none) out += fmt::format(" {}", name_of(p.mask));
  if (p.window_left >= 0 || p.window_right >= 0) out += fmt::format(" window {},{}", p.window_left, p.window_right);
  if (p.bias != BiasKind::none) out += fmt::format(" {}", name_of(p.bias));
  for (const auto& [set, word] :
       {std::pair{p.soft_cap, " softcap"}, {p.sink, " sink"}, {p.dropout, " dropout"}, {p.lse, " lse"}})
    if (set) out += word;
  return out;
}

std::string repro_command(const AttentionProblem& p) {
  std::string out = fmt::format(
      "tilesmith run attention_fwd --batch {} --heads-q {} --heads-kv {} --seqlen-q {} --seqlen-k {} --head-dim-qk {} "
      "--head-dim-v {} --dtype {}",
      p.batch, p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_k, p.head_dim_qk, p.head_dim_v, name_of(p.data_type));
  if (p.mode == SequenceMode::group) out += " --mode group";
  if (p.mask != MaskKind::none) out += fmt::format(" --mask {}", name_of(p.mask));
  if (p.window_left >= 0 || p.window_right >= 0) out += fmt::format(" --window {},{}", p.window_left, p.window_right);
  if (p.bias != BiasKind::none) out += fmt::format(" --random-{}", p.bias == BiasKind::alibi ? "alibi" : "bias");
  if (p.soft_cap) out += " --softcap 30";
  if (p.sink) out += " --random-sink";
  if (p.dropout) out += " --dropout 0.1";
  if (p.lse) out += " --with-lse";
  return out + " --verify";
}

}  // namespace tilesmith
