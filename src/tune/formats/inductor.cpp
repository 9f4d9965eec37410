// A look-up table of PyTorch Inductor: {"KEY": [{"template_id": ..., parameters}, ...]}, the fastest first
// (pytorch torch/_inductor/lookup_table/README.md; keys: _generate_kernel_inputs_key of lookup_table/choices.py).
//
//   [NVIDIA H100+]((torch.float16, [64, 128], [128, 1]), (torch.float16, [128, 256], [256, 1]))[+alpha=1&beta=1]+mm
//
// It has no times. An entry is a sample of a kernel without one.
#include <fmt/format.h>

#include <charconv>
#include <map>

#include "base/json.hpp"
#include "base/json_error.hpp"
#include "base/sha256.hpp"
#include "tune/formats/formats.hpp"

namespace tilesmith::formats {
namespace {

using nlohmann::ordered_json;

struct Tensor {
  std::string type;
  std::vector<std::int64_t> shape, stride;
};

struct TableKey {
  std::string device, operation;
  std::map<std::string, std::string, std::less<>> numbers;
  std::vector<Tensor> tensors;
};

/// Reads the text of a key from its start; each function says whether that stood there.
class KeyReader {
 public:
  explicit KeyReader(std::string_view text) : rest_(text) {}

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool tensors(std::vector<Tensor>& out) {
    if (!take("(")) return false;
    do {
      Tensor tensor;
      if (!take("(torch.")) return false;
      tensor.type = word();
      if (!take(", ") || !list(tensor.shape) || !take(", ") || !list(tensor.stride) || !take(")")) return false;
      if (tensor.shape.size() != tensor.stride.size()) return false;
      out.push_back(std::move(tensor));
    } while (take(", "));
    take(",");  // of a tuple of one
    return take(")");
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string word() {
    const std::size_t end = std::min(rest_.find_first_of(", ()["), rest_.size());
    const std::string out(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return out;
  }
  bool list(std::vector<std::int64_t>& out) {
    if (!take("[")) return false;
    if (take("]")) return true;
    do {
      std::int64_t value = 0;
      const auto [last, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || value < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(last - rest_.data()));
      out.push_back(value);
    } while (take(", "));
    return take("]");
  }

  std::string_view rest_;
};

std::optional<TableKey> parse_key(std::string_view text) {
  TableKey key;
  const std::size_t begin = text.find("((");
  if (begin == std::string_view::npos) return std::nullopt;
  if (begin > 0) {
    if (text[begin - 1] != '+') return std::nullopt;
    key.device = text.substr(0, begin - 1);
  }
  KeyReader reader(text.substr(begin));
  if (!reader.tensors(key.tensors) || !reader.take("+")) return std::nullopt;
  std::string_view rest = reader.rest();
  if (const std::size_t plus = rest.find('+'); plus != std::string_view::npos) {
    std::string_view numbers = rest.substr(0, plus);
    rest.remove_prefix(plus + 1);
    while (!numbers.empty()) {
      const std::size_t end = std::min(numbers.find('&'), numbers.size()), equals = numbers.find('=');
      if (equals >= end) return std::nullopt;
      key.numbers.emplace(numbers.substr(0, equals), numbers.substr(equals + 1, end - equals - 1));
      numbers.remove_prefix(std::min(end + 1, numbers.size()));
    }
  }
  if (rest.empty() || rest.find('+') != std::string_view::npos) return std::nullopt;
  key.operation = rest;
  return key;
}

std::optional<DataType> type_of(const std::string& name) {
  for (const auto& [known, type] :
       {std::pair{"float32", DataType::fp32}, {"float16", DataType::fp16}, {"bfloat16", DataType::bf16}})
    if (name == known) return type;
  return std::nullopt;
}

/// The order of the tensor's last two dimensions and their leading dimension: `usual` where both would do. Nothing for
/// a matrix that no operand here can be.
std::optional<std::pair<MatrixOrder, std::int64_t>> order_of(const Tensor& tensor, MatrixOrder usual) {
  const std::size_t last = tensor.shape.size() - 1;
  const std::int64_t rows = tensor.shape[last - 1], columns = tensor.shape[last];
  const std::int64_t by_row = tensor.stride[last - 1], by_column = tensor.stride[last];
  const bool is_row = by_column == 1 && (by_row >= columns || rows == 1);
  const bool is_column = by_row == 1 && (by_column >= rows || columns == 1);
  const auto row = std::pair{MatrixOrder::row, std::max(by_row, columns)};
  const auto column = std::pair{MatrixOrder::column, std::max(by_column, rows)};
  if (is_row && is_column) return usual == MatrixOrder::row ? row : column;
  if (is_row) return row;
  if (is_column) return column;
  return std::nullopt;
}

/// Sets the sample's problem; else says in words why it has none.
void set_problem_of(ForeignSample& sample, const TableKey& key) {
  const auto none = [&](std::string why) { sample.line = std::move(why); };
  const std::size_t inputs = key.operation == "addmm" ? 1 : 0;  // before A
  const bool batched = key.operation == "bmm", twice = key.operation == "mm_plus_mm";
  if (key.operation != "mm" && key.operation != "addmm" && !batched && !twice)
    return none(fmt::format("{} has no counterpart here", key.operation));
  const std::size_t rank = batched ? 3 : 2;
  if (key.tensors.size() != inputs + (twice ? 4 : 2)) return none("it has not the tensors of its operation");
  for (std::size_t i = inputs; i < key.tensors.size(); ++i)
    if (key.tensors[i].shape.size() != rank) return none("it has not the tensors of its operation");
  const auto type = type_of(key.tensors[inputs].type);
  if (!type) return none(fmt::format("no GEMM here has the type {}", key.tensors[inputs].type));
  for (const Tensor& tensor : key.tensors)
    if (type_of(tensor.type) != type) return none("its tensors have several types");

  const Tensor &a = key.tensors[inputs], &b = key.tensors[inputs + 1];
  GemmProblem problem = gemm_problem(*type, a.shape[rank - 2], b.shape[rank - 1], a.shape[rank - 1]);
  if (b.shape[rank - 2] != problem.k) return none("its matrices do not fit");
  if (batched) {
    problem.batch = a.shape[0];
    if (b.shape[0] != problem.batch) return none("its matrices do not fit");
  }
  const auto order_a = order_of(a, MatrixOrder::row), order_b = order_of(b, MatrixOrder::column);
  if (!order_a || !order_b) return none("a matrix lies along neither rows nor columns");
  problem.order_a = order_a->first;
  problem.order_b = order_b->first;
  if (twice) {
    const Tensor &a2 = key.tensors[2], &b2 = key.tensors[3];
    const auto order_a2 = order_of(a2, problem.order_a), order_b2 = order_of(b2, problem.order_b);
    problem.k2 = a2.shape[1];
    if (!order_a2 || !order_b2 || order_a2->first != problem.order_a || order_b2->first != problem.order_b)
      return none("its two products have several layouts");
    if (a2.shape[0] != problem.m || b2.shape[1] != problem.n || b2.shape[0] != problem.k2)
      return none("its matrices do not fit");
  }
  if (inputs == 1) {
    const Tensor& added = key.tensors[0];
    const auto number = [&](std::string_view name) {
      const auto found = key.numbers.find(name);
      return found == key.numbers.end() ? std::string("1") : found->second;
    };
    if (const std::string beta = number("beta"); beta != "0" && beta != "0.0") {
      const bool ones = (beta == "1" || beta == "1.0") && (number("alpha") == "1" || number("alpha") == "1.0");
      const bool is_vector = added.shape.size() == 1 || (added.shape.size() == 2 && added.stride[0] == 0);
      if (is_vector && ones && added.shape.back() == problem.n && added.stride.back() == 1)
        problem.epilogue.push_back(EpilogueOp::bias);
      else if (added.shape == std::vector{problem.m, problem.n} && added.stride[1] == 1 && added.stride[0] >= problem.n)
        problem.beta = true;
      else
        return none("what it adds is neither a bias nor a row-major matrix");
    }
  }
  GemmArguments arguments = dense_arguments(problem);
  arguments.a.leading = order_a->second;
  arguments.b.leading = order_b->second;
  if (batched) arguments.a.batch = a.stride[0], arguments.b.batch = b.stride[0];
  set_problem(sample, problem, arguments);
}

}  // namespace

Result<ExchangeContent> read_inductor(std::string_view origin, std::string_view text) {
  constexpr const char* kHint = "a table that PyTorch Inductor's recorder wrote, as JSON";
  ExchangeContent content;
  // One source a device, so that samples know theirs.
  std::map<std::string, ForeignSource> sources;
  const std::string digest = to_hex(sha256(text));
  try {
    const auto document = ordered_json::parse(text);
    if (!document.is_object()) return unreadable(origin, "it is no table", kHint);
    for (const auto& [key_text, entries] : document.items()) {
      const auto refuse = [&](std::string_view why) {
        content.refused.push_back(fmt::format("{}: {}: {}", origin, key_text, why));
      };
      if (!entries.is_array()) {
        refuse("its value is no list");
        continue;
      }
      const auto key = parse_key(key_text);
      const std::string device = key ? key->device : std::string();
      for (const auto& entry : entries) {
        if (!entry.is_object() || !entry.contains("template_id") || !entry.at("template_id").is_string()) {
          refuse("an entry has no template_id");
          continue;
        }
        ForeignSample sample;
        sample.kernel = entry.dump();
        sample.original = ordered_json::array({key_text, entry}).dump();
        if (key)
          set_problem_of(sample, *key);
        else
          sample.line = "its key has another form than those that are known";
        ForeignSource& source = sources[device];
        source.samples.push_back(std::move(sample));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    return unreadable(origin, words_of(error), kHint);
  }
  for (auto& [device, source] : sources) {
    source.digest = sources.size() == 1 ? digest : to_hex(sha256(digest + device));
    source.format = "inductor";
    source.origin = origin;
    source.device = device;
    content.foreign.push_back(std::move(source));
  }
  if (content.foreign.empty()) return unreadable(origin, content.refused, "it has no entries", kHint);
  return content;
}

std::string write_inductor(const std::vector<ForeignSource>& foreign) {
  ordered_json table = ordered_json::object();
  for (const ForeignSource& source : foreign) {
    if (source.format != "inductor") continue;
    for (const ForeignSample& sample : source.samples) {
      const auto original = ordered_json::parse(sample.original, nullptr, false);
      if (!original.is_array() || original.size() != 2) continue;
      ordered_json& entries = table[original[0].get<std::string>()];
      if (std::ranges::find(entries, original[1]) == entries.end()) entries.push_back(original[1]);
    }
  }
  return table.empty() ? std::string() : table.dump(2) + "\n";
}

}  // namespace tilesmith::formats
