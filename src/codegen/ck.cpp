#include "codegen/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/lasting.hpp"
#include "codegen/ck_words.hpp"
#include "codegen/flatten.hpp"
#include "vocabulary/field_value.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith {
namespace {

const CkOperation* operation_words(Operation operation) {
  switch (operation) {
    case Operation::attention:
      return &ck_attention_operation();
    case Operation::gemm:
      return &ck_gemm_operation();
    case Operation::conv:
      return &ck_conv_operation();
  }
  return nullptr;
}

/// A line of a comment must not continue on the next one.
void append_comment(std::string& out, std::string_view text) {
  out += "// ";
  out += text;
  out += '\n';
}

Error lacks(const KernelConfig& config, std::string what, std::string hint) {
  return {ErrorCode::unsupported, fmt::format("{}: {}", ck_name(config), what), std::move(hint)};
}

}  // namespace

void append_sequence(std::string& out, std::span<const std::uint16_t> figures) {
  out += "ck_tile::sequence<";
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (i > 0) out += ", ";
    append_integer(out, figures[i]);
  }
  out += '>';
}

/// The unit of one family and pipeline: its text up to what differs between instances.
struct CkWriter::Plan {
  /// Text, then what a word writes; the last piece has no word.
  struct Piece {
    std::string text;
    const CkWord* word = nullptr;
  };

  const CkUnit* unit = nullptr;
  Operation operation = Operation::attention;
  Pipeline pipeline = Pipeline::qr;
  const CkOperation* words = nullptr;
  CkTraits expresses = 0;
  std::string includes;
  std::vector<Piece> aliases;
  std::array<std::string, 2> launch;  ///< by SequenceMode
  std::string workspace;

  [[nodiscard]] Status add_argument(const std::string& argument, bool last);
  [[nodiscard]] Status add_aliases();
};

Status CkWriter::Plan::add_argument(const std::string& argument, bool last) {
  std::string& text = aliases.back().text;
  const std::string_view end = last ? "" : ",";
  if (!is_ck_word(argument)) {
    text += fmt::format("    {}{}\n", argument, end);
    return {};
  }
  const auto found = std::ranges::find(words->words, argument, &CkWord::name);
  if (found == words->words.end())
    return fail(ErrorCode::parse, fmt::format("amd/ck/sources.json: no word {} of family {}", argument, unit->family));
  text += fmt::format("    /* {} */ ", argument);
  aliases.back().word = &*found;
  expresses |= found->expresses;
  aliases.push_back({fmt::format("{}\n", end)});
  return {};
}

Status CkWriter::Plan::add_aliases() {
  aliases.emplace_back();
  for (const CkAlias& alias : unit->aliases) {
    if (alias.class_template == "=") {
      aliases.back().text += fmt::format("using {} =\n", alias.name);
      TS_TRY(add_argument(alias.arguments[0], true));
      aliases.back().text.pop_back();
      aliases.back().text += ";\n";
      continue;
    }
    std::string name = alias.class_template;
    std::vector<std::string> arguments = alias.arguments;
    if (name == "pipeline") {
      const CkPipelineClass& of = *unit->class_of(pipeline);
      name = of.name;
      arguments.insert(arguments.end(), of.arguments.begin(), of.arguments.end());
    }
    if (arguments.size() == 1) {
      aliases.back().text += fmt::format("using {} = ck_tile::{}<{}>;\n", alias.name, name, arguments[0]);
      continue;
    }
    aliases.back().text += fmt::format("using {} = ck_tile::{}<\n", alias.name, name);
    for (std::size_t i = 0; i < arguments.size(); ++i) TS_TRY(add_argument(arguments[i], i + 1 == arguments.size()));
    aliases.back().text.pop_back();
    aliases.back().text += ">;\n";
  }
  return {};
}

namespace {

/// An argument of a function: a member of the call's arguments, or a literal.
void append_call_argument(std::string& out, const std::string& word) {
  const bool literal = word == "nullptr" || (word[0] >= '0' && word[0] <= '9');
  if (word == "page_table")
    out += "page_table<Kernel, kRecord.kv_lookup>(a)";
  else if (literal)
    out += word;
  else
    out += "a." + word;
}

std::string call(const std::vector<std::string>& words, std::string_view indent) {
  std::string out, line{indent};
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word;
    append_call_argument(word, words[i]);
    if (i + 1 < words.size()) word += ",";
    if (line.size() + word.size() > 100) {
      while (line.back() == ' ') line.pop_back();
      out += line + '\n';
      line = indent;
    }
    line += word + ' ';
  }
  line.pop_back();
  return out + line;
}

/// The arguments of ck_tile::make_kernel.
std::string launch_bounds(const CkSourcesSpec::Launch& launch, const std::string& tag, std::string_view min_blocks) {
  std::string out;
  for (const std::string& word : launch.arguments) {
    if (!out.empty()) out += ", ";
    out += word == "block_threads" ? "Kernel::kBlockSize"
           : word == "min_blocks"  ? std::string(min_blocks)
                                   : "ck_tile::" + tag;
  }
  return out;
}

}  // namespace

CkWriter::CkWriter(const AmdChip& chip, const CkSourcesSpec& spec, std::string version)
    : chip_(&chip), spec_(&spec), version_(std::move(version)) {}
CkWriter::CkWriter(CkWriter&&) noexcept = default;
CkWriter& CkWriter::operator=(CkWriter&&) noexcept = default;
CkWriter::~CkWriter() = default;

Result<CkWriter> CkWriter::create(const AmdChip& chip, std::string_view version) {
  const auto& spec = ck_sources_spec();
  if (!spec) return std::unexpected(spec.error());
  if (version.empty()) version = spec->default_version;
  TS_TRY(spec->version(version));
  if (spec->arch_tag(chip.arch.text()) == nullptr)
    return fail(ErrorCode::unsupported, fmt::format("Composable Kernel has no target {}", chip.arch.text()),
                "\"arch_tags\" of specs/amd/ck/sources.json lists the targets");
  return CkWriter(chip, *spec, std::string(version));
}

Result<const CkWriter::Plan*> CkWriter::plan_for(const KernelConfig& config, std::string_view family) {
  const Pipeline pipeline = config.algorithm.pipeline;
  for (const auto& plan : plans_)
    if (plan->operation == config.operation() && plan->unit->family == family && plan->pipeline == pipeline)
      return plan.get();
  const CkUnit* unit = spec_->unit(config.operation(), family, version_, pipeline);
  if (unit == nullptr)
    return std::unexpected(lacks(config,
                                 fmt::format("Composable Kernel {} has no kernels of family {} with pipeline {}",
                                             version_, family, name_of(pipeline)),
                                 "a newer version: --ck-version"));
  auto plan = std::make_unique<Plan>();
  plan->unit = unit;
  plan->operation = config.operation();
  plan->pipeline = pipeline;
  plan->words = operation_words(config.operation());
  for (const std::string& header : *spec_->headers_of(config.operation()))
    plan->includes += fmt::format("#include <{}>\n", header);
  plan->includes += fmt::format("\n#include \"tilesmith_ck/{}\"\n", plan->words->header);
  TS_TRY(plan->add_aliases());
  const bool has_call = !unit->make.empty();
  const std::string bounds =
      launch_bounds(*spec_->launch(version_), *spec_->arch_tag(chip_->arch.text()),
                    has_call ? "Kernel::kBlockPerCu" : std::to_string(plan->words->min_blocks(pipeline)));
  if (!has_call) {
    std::string& launch = plan->launch[0];
    launch = plan->words->launch(family);
    constexpr std::string_view kBounds = "BOUNDS";
    launch.replace(launch.find(kBounds), kBounds.size(), bounds);
    plan->workspace = plan->words->workspace(family);
  } else {
    for (std::size_t mode = 0; mode < plan->launch.size(); ++mode)
      plan->launch[mode] = fmt::format(
          "template <class Kernel>\n"
          "float enqueue(const {}& a, const ck_tile::stream_config& stream) {{\n"
          "  const auto kernel_arguments = Kernel::{}(\n{});\n"
          "  const dim3 grid = Kernel::GridSize(\n{});\n"
          "  const auto launch = ck_tile::make_kernel<{}>(\n"
          "      Kernel{{}}, grid, Kernel::BlockSize(), 0, kernel_arguments);\n"
          "  return ck_tile::launch_kernel(stream, launch);\n"
          "}}\n\n",
          plan->words->arguments, unit->make, call(unit->make_arguments[mode], "      "),
          call(unit->grid_arguments[mode], "      "), bounds);
  }
  plans_.push_back(std::move(plan));
  return plans_.back().get();
}

Status CkWriter::write(const KernelConfig& config, std::string& text, Written* written) {
  const CkOperation* words = operation_words(config.operation());
  if (words == nullptr || spec_->headers_of(config.operation()) == nullptr)
    return std::unexpected(lacks(config, fmt::format("sources of {} are not written", name_of(config.operation())),
                                 "--op attention, gemm or conv"));
  if (config.origin != Origin::ck || config.arch != chip_->arch)
    return std::unexpected(lacks(config, fmt::format("not an instance of Composable Kernel for {}", chip_->arch.text()),
                                 "tilesmith list --arch names the instances"));
  TS_TRY(words->accepts(config, *chip_));
  TS_ASSIGN(const Plan* plan, plan_for(config, words->family(config)));
  if (const CkTraits missing = words->needs(config) & ~plan->expresses)
    return std::unexpected(lacks(config,
                                 fmt::format("Composable Kernel {} has no {} in kernels of family {}", version_,
                                             words->trait_name(missing & (~missing + 1)), plan->unit->family),
                                 "a newer version: --ck-version"));
  for (const auto& [pipeline, pads] : plan->unit->padded)
    for (std::size_t i = 0; i < pads.size(); ++i)
      if (pipeline == config.algorithm.pipeline && config.algorithm.pad[i] < pads[i])
        return std::unexpected(lacks(
            config, fmt::format("Composable Kernel {} compiles {} with padding only", version_, name_of(pipeline)),
            "a newer version: --ck-version"));

  char name[kMaxCkName];
  const std::string_view ck(name, static_cast<std::size_t>(write_ck_name(config, name) - name));
  const std::string canonical = canonical_form(config);
  const std::string key = key128(canonical).hex();
  if (written != nullptr) *written = {std::string(ck), key};
  const std::string_view arch = chip_->arch.text();
  const std::size_t mode =
      config.operation() == Operation::attention ? static_cast<std::size_t>(config.attention().mode) : 0;
  text.clear();
  append_comment(text, ck);
  append_comment(text, canonical);
  text += "// Written by tilesmith generate for Composable Kernel ";
  text += version_;
  text += ".\n";
  text += plan->includes;
  text += "\nnamespace tilesmith_ck {\nnamespace of_";
  text += key;
  text += " {\nnamespace {\n\n";
  words->write_types(text, config);
  const std::vector<int>& splits = plan->unit->splits_log2;
  if (!splits.empty()) text += "template <int kMaxSplitsLog2>\nstruct Kernels {\n";
  for (const Plan::Piece& piece : plan->aliases) {
    text += piece.text;
    if (piece.word != nullptr) piece.word->write(text, config, *chip_);
  }
  if (!splits.empty()) text += "};\n";
  text += "\nconstexpr ";
  text += words->record;
  text += " kRecord = [] {\n  ";
  text += words->record;
  text += " r;\n";
  words->write_record(text, config);
  text += "  return r;\n}();\n\n";
  // A program may hold the same instance for two chips: only the chip's own pass has the device code.
  text += "#if !defined(__HIP_DEVICE_COMPILE__) || defined(__";
  text += arch;
  text += "__)\n";
  text += plan->launch[mode];
  text += "float run(const ";
  text += words->arguments;
  text += "& a, const ck_tile::stream_config& stream) {\n";
  if (splits.empty()) {
    text += "  return enqueue<Kernel>(a, stream);\n";
  } else {
    for (const int log2 : splits)
      text += fmt::format("  if (a.num_splits <= {}) return enqueue<typename Kernels<{}>::Kernel>(a, stream);\n",
                          1 << log2, log2);
    text += "  return kRefused;\n";
  }
  text += "}\n";
  const auto workspace = [&](std::string_view begin, std::string_view value) {
    if (plan->workspace.empty()) return;
    for (const std::string_view part :
         {std::string_view("std::size_t workspace(const "), words->arguments, begin, value, std::string_view("; }\n")})
      text += part;
  };
  workspace("& a) { return ", plan->workspace);
  text += "#else\nfloat run(const ";
  text += words->arguments;
  text += "&, const ck_tile::stream_config&) { return kRefused; }\n";
  workspace("&) { return ", "0");
  text += "#endif\n\n";
  text += "constexpr ";
  text += words->instance;
  text += " kInstance{\n    \"";
  text += ck;
  text += "\",\n    \"";
  text += key;
  text += "\", \"";
  text += arch;
  text += "\", kRecord, &run";
  if (!plan->workspace.empty()) text += ", &workspace";
  text += "};\n\n}  // namespace\n}  // namespace of_";
  text += key;
  text += "\n\nconst ";
  text += words->instance;
  text += "& k_";
  text += key;
  text += "() { return of_";
  text += key;
  text += "::kInstance; }\n\n}  // namespace tilesmith_ck\n";
  return {};
}

CkWriter::DispatchNames CkWriter::dispatch_names(Operation operation) {
  const CkOperation* words = operation_words(operation);
  return {words->dispatch_header, words->instance};
}

std::string CkWriter::symbol(const KernelConfig& config) {
  return "k_" + key_of(config).hex();
}

std::vector<std::string> CkWriter::options() const {
  std::vector<std::string> out = spec_->flags.all;
  out.push_back(fmt::format("--offload-arch={}", chip_->arch.text()));
  const auto& by_isa = chip_->isa == AmdIsa::cdna ? spec_->flags.cdna : spec_->flags.rdna;
  out.insert(out.end(), by_isa.begin(), by_isa.end());
  return out;
}

std::vector<std::string> CkWriter::options_of(const KernelConfig& config) const {
  std::vector<std::string> out;
  if (config.operation() != Operation::attention) return out;
  // A soft cap needs the fast exponential; elsewhere the RDNA chips go without, as upstream builds them.
  const bool fast = chip_->isa == AmdIsa::cdna || config.attention().soft_cap;
  out.push_back(fmt::format("-DCK_TILE_FMHA_FWD_FAST_EXP2={}", fast ? 1 : 0));
  if (config.attention().family >= AttentionFamily::bwd_dot_do_o)
    out.insert(out.end(), spec_->flags.backward.begin(), spec_->flags.backward.end());
  return out;
}

std::span<const EmbeddedFile> ck_support_headers() {
  static const std::vector<EmbeddedFile>& files = lasting([] {
    std::vector<EmbeddedFile> out;
    constexpr std::string_view kFolder = "ck/";
    for (const EmbeddedFile& file : embedded_kernels())
      if (file.path.starts_with(kFolder)) out.push_back({file.path.substr(kFolder.size()), file.text});
    return out;
  }());
  return files;
}

}  // namespace tilesmith
