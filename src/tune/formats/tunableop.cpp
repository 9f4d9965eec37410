// Results of PyTorch's TunableOp: lines "Validator,NAME,VALUE", then "operation,parameters[,solution[,milliseconds]]"
// (pytorch aten/src/ATen/cuda/tunable/README.md; parameters: Signature() of GemmCommon.h, operations: of
// TunableGemm.h).
//
//   GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4096_4096_512,Gemm_Rocblas_45,0.1
//
// Its matrices are column-major: op(A) is M x K and op(B) is K x N of tn_M_N_K. Read as row-major, that is a product of
// N x K and K x M, and "tn" has both along k. The parameters do not say beta, which is taken for 0.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>

#include "base/csv.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "problem/line.hpp"
#include "tune/formats/formats.hpp"

namespace tilesmith::formats {
namespace {

constexpr std::string_view kGemm = "GemmTunableOp_", kBatched = "GemmStridedBatchedTunableOp_";

/// TypeName of TunableGemm.h.
constexpr std::pair<std::string_view, DataType> kTypes[] = {
    {"float", DataType::fp32}, {"Half", DataType::fp16}, {"BFloat16", DataType::bf16}};

struct Signature {
  char trans_a = 0, trans_b = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::array<std::int64_t, 3> leading{};  ///< of A, B, C; 0: not said
};

/// "tn_512_256_4096", with "_B_8" and "_ld_4096_4096_512" behind it or without.
std::optional<Signature> parse_signature(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('_', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::size_t next = 1;
  const auto number = [&](std::int64_t& out) {
    if (next >= words.size()) return false;
    const std::string_view word = words[next++];
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    return error == std::errc() && last == word.data() + word.size() && out >= 0;
  };
  Signature out;
  if (words[0].size() != 2 || words[0].find_first_not_of("tnTN") != std::string_view::npos) return std::nullopt;
  out.trans_a = static_cast<char>(words[0][0] | 0x20);
  out.trans_b = static_cast<char>(words[0][1] | 0x20);
  if (!number(out.m) || !number(out.n) || !number(out.k)) return std::nullopt;
  if (next < words.size() && words[next] == "B" && (++next, !number(out.batch))) return std::nullopt;
  if (next < words.size() && words[next] == "ld") {
    ++next;
    for (std::int64_t& leading : out.leading)
      if (!number(leading)) return std::nullopt;
  }
  if (next != words.size()) return std::nullopt;
  return out;
}

/// Sets the sample's problem, or why it has none. Error: the row is not what the format asks for.
Status set_problem_of(ForeignSample& sample, std::string_view operation, std::string_view parameters) {
  const bool batched = operation.starts_with(kBatched);
  if (!batched && !operation.starts_with(kGemm)) {
    if (operation.find("TunableOp_") == std::string_view::npos)
      return fail(ErrorCode::parse, fmt::format("{} is no operation of TunableOp", operation.substr(0, 64)));
    sample.line = operation.starts_with("GemmAndBias")
                      ? "the parameters of GemmAndBiasTunableOp do not say which activation it has"
                      : fmt::format("{} has no counterpart here", operation.substr(0, operation.find('_')));
    return {};
  }
  const auto signature = parse_signature(parameters);
  if (!signature || (signature->batch != 1 && !batched))
    return fail(ErrorCode::parse, fmt::format("{} are no parameters of a GEMM", parameters.substr(0, 64)));
  const std::string_view form = operation.substr(batched ? kBatched.size() : kGemm.size());
  const std::size_t type_end = form.rfind('_');
  if (type_end == std::string_view::npos || form.size() != type_end + 3 ||
      static_cast<char>(form[type_end + 1] | 0x20) != signature->trans_a ||
      static_cast<char>(form[type_end + 2] | 0x20) != signature->trans_b)
    return fail(ErrorCode::parse,
                fmt::format("{} and {} contradict each other", operation.substr(0, 64), parameters.substr(0, 64)));
  const std::string_view type_name = form.substr(0, type_end);
  const auto* type = std::ranges::find(kTypes, type_name, &std::pair<std::string_view, DataType>::first);
  if (type == std::end(kTypes)) {
    sample.line = fmt::format("no GEMM here has the type {}", type_name);
    return {};
  }
  GemmProblem problem = gemm_problem(type->second, signature->n, signature->m, signature->k);
  problem.batch = signature->batch;
  problem.order_a = signature->trans_b == 't' ? MatrixOrder::column : MatrixOrder::row;
  problem.order_b = signature->trans_a == 't' ? MatrixOrder::column : MatrixOrder::row;
  GemmArguments arguments = dense_arguments(problem);
  const auto [of_a, of_b, of_c] = signature->leading;
  if (of_a > 0 && (of_b < arguments.a.leading || of_a < arguments.b.leading || of_c < arguments.d_leading))
    return fail(ErrorCode::parse, fmt::format("{}: a leading dimension is too short", parameters.substr(0, 64)));
  if (of_a > 0) arguments.a.leading = of_b, arguments.b.leading = of_a, arguments.d_leading = of_c;
  set_problem(sample, problem, arguments);
  return {};
}

}  // namespace

Result<ExchangeContent> read_tunableop(std::string_view origin, std::string_view text) {
  ExchangeContent content;
  ForeignSource source{.digest = to_hex(sha256(text)),
                       .format = "tunableop",
                       .origin = std::string(origin),
                       .device = {},
                       .header = {},
                       .samples = {}};
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    at = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    std::size_t begin = 0;
    const auto cells = next_csv_record(line + "\n", begin).value_or(std::vector<std::string>());
    if (cells.size() == 3 && cells[0] == "Validator") {
      source.header += line + "\n";
      if (cells[1] == "GCN_ARCH_NAME") source.device = cells[2];
      continue;
    }
    const auto refuse = [&](std::string_view why) {
      content.refused.push_back(fmt::format("{}:{}: {}", origin, number, why));
    };
    if (cells.size() < 2 || cells.size() > 4) {
      refuse("it has not 2 to 4 cells: operation, parameters, solution, milliseconds");
      continue;
    }
    ForeignSample sample;
    sample.kernel = cells.size() > 2 ? cells[2] : std::string();
    sample.original = line;
    if (cells.size() == 4) {
      double milliseconds = 0;
      const auto [last, error] = std::from_chars(cells[3].data(), cells[3].data() + cells[3].size(), milliseconds);
      if (error != std::errc() || last != cells[3].data() + cells[3].size() || !(milliseconds >= 0) ||
          milliseconds > 1e12) {
        refuse(fmt::format("{} is no time in milliseconds", cells[3]));
        continue;
      }
      sample.seconds = milliseconds * 1e-3;
    }
    if (const Status set = set_problem_of(sample, cells[0], cells[1]); !set)
      refuse(set.error().message);
    else
      source.samples.push_back(std::move(sample));
  }
  if (source.samples.empty())
    return unreadable(origin, content.refused, "it has no rows", "a file that PyTorch's TunableOp wrote");
  content.foreign.push_back(std::move(source));
  return content;
}

Result<std::string> write_tunableop(const std::vector<ForeignSource>& foreign) {
  std::string out;
  const ForeignSource* first = nullptr;
  std::set<std::string> written;
  for (const ForeignSource& source : foreign) {
    if (source.format != "tunableop") continue;
    if (first == nullptr) {
      first = &source;
      out = source.header;
    } else if (source.header != first->header) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("{} and {} are of other versions or devices, and TunableOp rejects a file whose validators "
                      "are not its own",
                      first->origin, source.origin),
          "a database for each (db import --db)");
    }
    for (const ForeignSample& sample : source.samples)
      if (written.insert(sample.original).second) out += sample.original + "\n";
  }
  return out;
}

std::string write_untuned(const std::vector<StoredRace>& races) {
  std::string out;
  std::set<std::string> written;
  for (const StoredRace& stored : races) {
    const auto call = parse_line(stored.race.line);
    const auto* gemm = call ? std::get_if<RandomCall<Gemm>>(&*call) : nullptr;
    if (gemm == nullptr) continue;
    const GemmProblem& p = gemm->problem;
    GemmProblem plain = gemm_problem(p.type_a, p.m, p.n, p.k);
    plain.batch = p.batch;
    plain.order_a = p.order_a;
    plain.order_b = p.order_b;
    plain.unaligned = p.unaligned;
    plain.aligned_d = p.aligned_d;
    const auto* type = std::ranges::find(kTypes, p.type_a, &std::pair<std::string_view, DataType>::second);
    if (p != plain || type == std::end(kTypes)) continue;  // nothing that its parameters could say
    const GemmArguments dense = dense_arguments(p);
    const char trans_a = p.order_b == MatrixOrder::column ? 't' : 'n',
               trans_b = p.order_a == MatrixOrder::row ? 'n' : 't';
    const std::string line = fmt::format(
        "{}{}_{}{},{}{}_{}_{}_{}{}_ld_{}_{}_{}\n", p.batch == 1 ? "GemmTunableOp_" : "GemmStridedBatchedTunableOp_",
        type->first, static_cast<char>(trans_a & ~0x20), static_cast<char>(trans_b & ~0x20), trans_a, trans_b, p.n, p.m,
        p.k, p.batch == 1 ? std::string() : fmt::format("_B_{}", p.batch), dense.b.leading, dense.a.leading,
        dense.d_leading);
    if (written.insert(line).second) out += line;
  }
  return out;
}

}  // namespace tilesmith::formats
