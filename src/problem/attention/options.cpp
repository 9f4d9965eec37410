// The options of attention problems, and what is usual where they are not given.
#include <cmath>

#include "problem/derive.hpp"
#include "problem/option_table.hpp"

namespace tilesmith {
namespace {

using Call = RandomCall<AttentionFwd>;

/// A flag that asks for a bias of this kind.
ProblemOption<AttentionFwd> bias_option(const std::string& name, BiasKind kind, std::string about) {
  return {.names = {name},
          .about = std::move(about),
          .form = OptionForm::flag,
          .fields = {"bias"},
          .text = [kind](const Call& call) -> std::optional<std::string> {
            if (call.problem.bias != kind) return std::nullopt;
            return "";
          },
          .read = [kind](Call& call, std::string_view) -> Status {
            if (call.problem.bias != BiasKind::none && call.problem.bias != kind)
              return fail(ErrorCode::invalid_argument, "both a bias and ALiBi slopes", "one of them");
            call.problem.bias = kind;
            return {};
          }};
}

/// An option whose number, when it is not 0, also sets a flag of the problem.
ProblemOption<AttentionFwd> number_option(const std::string& name, std::string about, std::vector<std::string> fields,
                                          bool AttentionProblem::*flag, float AttentionNumbers::*number) {
  return {
      .names = {name},
      .about = std::move(about),
      .fields = std::move(fields),
      .text = [number](const Call& call) -> std::optional<std::string> { return text_of_value(call.numbers.*number); },
      .read = [name, flag, number](Call& call, std::string_view text) -> Status {
        TS_TRY(read_value_text(name, text, call.numbers.*number));
        call.problem.*flag = call.numbers.*number != 0;
        return {};
      }};
}

}  // namespace

std::vector<ProblemOption<AttentionFwd>> Line<AttentionFwd>::options() {
  OptionTable<AttentionFwd> table;
  table.group("Problem")
      .field("batch", {"--batch"}, "Sequences (default 1)")
      .field("heads_q", {"--heads-q"}, "Query heads (default 1)")
      .field("heads_kv", {"--heads-kv"}, "Key and value heads (default: heads-q)")
      .field("seqlen_q", {"--seqlen-q"}, "Queries of a sequence; group mode: of the longest (default 512)")
      .always()
      .field("seqlen_k", {"--seqlen-k"}, "Keys of a sequence (default: seqlen-q)")
      .field("head_dim_qk", {"--head-dim-qk"}, "Head dimension of q and k (default 128)")
      .always()
      .field("head_dim_v", {"--head-dim-v"}, "Head dimension of v and o (default: head-dim-qk)")
      .add(
          {.names = {"--dtype"},
           .about = "fp32, tf32 (fp32 whose products round to 10 bits of mantissa), fp16, bf16 (the default), fp8bf16, "
                    "fp8fp16 or fp8e4m3 (which writes bf16)",
           .always = true,
           .fields = {"data_type"},
           .text = [](const Call& call) -> std::optional<std::string> { return text_of_value(call.problem.data_type); },
           .read = [](Call& call, std::string_view text) -> Status {
             TS_TRY(read_value_text("--dtype", text, call.problem.data_type));
             if (call.problem.data_type == DataType::fp8) call.problem.data_type = DataType::fp8bf16;  // of the inputs
             return {};
           }})
      .field("page_size", {"--page-size"},
             "k and v lie in pages of so many keys, and sequences have lengths of their own up to seqlen-k")
      .field("vectorized_pages", {"--vectorized-pages"},
             "Pages hold vectors of 16 bytes: k (dim / x, page-size, x) and v (page-size / x, dim, x) for each head")
      .field("cache", {"--cache"},
             "Elements of k and v: as_queries (the default), or fp8 (e4m3) or int8 with scales, beside q of --dtype")
      .field("page_scale", {"--page-scale"}, "Of an 8-bit cache: a scale for each row of a page")
      .field("append", {"--append"},
             "The call writes the keys and values of its queries' tokens into the cache before it attends")
      .field("rotary_dim", {"--rotary-dim"}, "With --append: elements of a head that turn, an even number (default 0)")
      .field("rotary_style", {"--rotary-style"},
             "Which elements turn together: half (the default: i and i + dim / 2) or interleaved")
      .field("choose_scales", {"--choose-scales"},
             "With --append and --page-scale: the call chooses the scales of its rows and writes them")
      .field("latent", {"--latent"}, "Values are the first head-dim-v elements of the keys, as in latent attention")
      .field("splits", {"--splits"},
             "Pieces that kernels for few queries cut the keys into (default: chosen by a model of the device)")
      .field("batch_invariant", {"--batch-invariant"},
             "A sequence has the same bits whatever stands beside it and however its keys are paged")
      .field("layout", {"--layout"}, "Order of the tensors' dimensions: bhsd (the default) or bshd")
      .field("mode", {"--mode"},
             "batch, or group for sequences of different lengths (default: group when offsets are given)");
  table.group("Traits")
      .field("mask", {"--mask"}, "none (the default), top_left or bottom_right (causal)")
      .add({.names = {"--window"},
            .about = "LEFT,RIGHT: keys a query sees on each side; -1 is unbounded",
            .form = OptionForm::pair,
            .fields = {"window_left", "window_right"},
            .text = [](const Call& call) -> std::optional<std::string> {
              return fmt::format("{},{}", call.problem.window_left, call.problem.window_right);
            },
            .read = [](Call& call, std::string_view text) -> Status {
              std::vector<std::int64_t> sides;
              TS_TRY(read_value_text("--window", text, sides));
              if (sides.size() != 2) return wrong_value("--window", text, "LEFT,RIGHT");
              call.problem.window_left = sides[0];
              call.problem.window_right = sides[1];
              return {};
            }})
      .field(
          "diagonal", {"--diagonal"},
          "Moves the mask and the window by so many keys to the right (default 0; -1: causal without the key itself)")
      .add({.names = {"--scale"},
            .about = "Factor of the logits (default 1/sqrt(head-dim-qk))",
            .fields = {"scale", "negative_scale"},
            .text = [](const Call& call) -> std::optional<std::string> {
              if (!call.numbers.scale) return std::nullopt;
              return text_of_value(call.numbers.scale);
            },
            .read = [](Call& call,
                       std::string_view text) { return read_value_text("--scale", text, call.numbers.scale); }})
      .add(number_option("--softcap", "Soft cap of the logits (0: none)", {"soft_cap"}, &AttentionProblem::soft_cap,
                         &AttentionNumbers::soft_cap))
      .add(bias_option("--random-bias", BiasKind::elementwise, "A random bias"))
      .add({.names = {"--padding"},
            .about = "What a random bias has for keys that it hides (default -inf)",
            .fields = {"padding"},
            .text = [](const Call& call) -> std::optional<std::string> {
              if (!call.numbers.padding) return std::nullopt;
              return text_of_value(call.numbers.padding);
            },
            .read = [](Call& call,
                       std::string_view text) { return read_value_text("--padding", text, call.numbers.padding); }})
      .add(bias_option("--random-alibi", BiasKind::alibi, "The usual ALiBi slopes"))
      .field("sink", {"--random-sink"}, "Random sink logits")
      .field("lse", {"--with-lse"}, "Compute the log-sum-exp even when --lse names no file")
      .add(number_option("--dropout", "Probability of dropping a weight", {"dropout", "dropout_probability"},
                         &AttentionProblem::dropout, &AttentionNumbers::dropout_probability))
      .field("block_scale", {"--block-scale"}, "fp8: a scale for each block of 128 rows of a sequence")
      .field("seed", {"--seed"}, "Seed of dropout and of random inputs (default 0)")
      .field("unaligned", {"--unaligned"}, "Plan for rows of q, k, v and o that begin at any element")
      .field("unaligned_bias", {"--unaligned-bias"}, "Plan for rows of the bias that begin at any element");
  return table.finish();
}

Status Line<AttentionFwd>::complete(Call& call, const GivenFields& given) {
  AttentionProblem& p = call.problem;
  if (!given.has("heads_kv")) p.heads_kv = p.heads_q;
  if (!given.has("seqlen_q")) p.seqlen_q = 512;
  if (!given.has("seqlen_k")) p.seqlen_k = p.seqlen_q;
  if (!given.has("head_dim_v")) p.head_dim_v = p.head_dim_qk;
  TS_TRY(validate(p));
  AttentionArguments dense = dense_arguments(p, call.numbers.layout);
  if (call.numbers.scale) dense.scale = *call.numbers.scale;
  p = derived(p, dense);
  return {};
}

AttentionNumbers Line<AttentionFwd>::usual_numbers(const AttentionProblem& p) {
  AttentionNumbers numbers;
  if (p.soft_cap) numbers.soft_cap = 30;
  if (p.dropout) numbers.dropout_probability = 0.1F;
  if (p.negative_scale) numbers.scale = -1 / std::sqrt(static_cast<float>(p.head_dim_qk));
  return numbers;
}

}  // namespace tilesmith
