// The words of append_kv, of run and of list --candidates.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "problem/attention/numbers.hpp"
#include "trial/serving/append_kv_case.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::cli {

struct AppendKvWords {
  AppendKvSizes sizes;
  std::string data_type = "bf16", cache = "as_queries", rotary_style = "half";
  std::int64_t head_dim_v = -1;

  void add_to(CLI::App& verb) {
    verb.add_option("--batch", sizes.batch, "Sequences (default 1)");
    verb.add_option("--heads-q", sizes.heads_q, "Query heads that are turned (default 0)");
    verb.add_option("--heads-kv", sizes.heads_kv, "Key and value heads (default 1)");
    verb.add_option("--seqlen", sizes.seqlen, "New tokens of a sequence (default 1)");
    verb.add_option("--seqlen-k", sizes.seqlen_k, "Keys that the longest sequence has before (default 0)");
    verb.add_option("--head-dim-qk", sizes.head_dim_qk, "Head dimension of keys and queries (default 128)");
    verb.add_option("--head-dim-v", head_dim_v, "Head dimension of values (default: head-dim-qk)");
    verb.add_option("--page-size", sizes.page_size, "Rows of a page (default 16)");
    verb.add_option("--rotary-dim", sizes.rotary_dim, "Elements of a head that are turned, an even number (default 0)");
    verb.add_option("--rotary-style", rotary_style, "Which are turned together: half (the default) or interleaved");
    verb.add_option("--dtype", data_type, "Of the tokens: fp32, fp16 or bf16 (the default)");
    verb.add_option("--cache", cache, "Elements of the cache: as_queries (the default), fp8 (e4m3) or int8");
    verb.add_flag("--vectorized-pages", sizes.vectorized_pages,
                  "Pages hold vectors of 16 bytes, as Composable Kernel's");
    verb.add_flag("--page-scale", sizes.page_scale, "Of an 8-bit cache: a scale for each page and head, which is read");
    verb.add_flag("--row-scale", sizes.row_scale, "Of an 8-bit cache: a scale for each row and head, which is written");
    verb.add_flag("--lengths-after", sizes.lengths_after, "The call is given lengths that count its tokens too");
    verb.add_option("--seed", sizes.seed, "Of the random data (default 0)");
  }
  /// Reads the words into `sizes`.
  [[nodiscard]] Status read() {
    TS_ASSIGN(sizes.data_type, parse_enum<DataType>(data_type));
    TS_ASSIGN(sizes.cache, parse_enum<KvElements>(cache));
    TS_ASSIGN(sizes.rotary_style, parse_enum<RotaryStyle>(rotary_style));
    sizes.head_dim_v = head_dim_v < 0 ? sizes.head_dim_qk : head_dim_v;
    return {};
  }
  [[nodiscard]] Result<std::unique_ptr<const DirectCase>> make() {
    TS_TRY(read());
    return append_kv_case(sizes);
  }
};

}  // namespace tilesmith::cli
