// tilesmith generate: the sources of listed instances, with a build.ninja. tilesmith build: the same instances compiled
// into the store.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <variant>
#include <vector>

#include "base/file.hpp"
#include "base/progress.hpp"
#include "cli/build_kernels.hpp"
#include "cli/generate_ck.hpp"
#include "cli/number_checks.hpp"
#include "cli/selection.hpp"
#include "cli/verbs.hpp"
#include "codegen/generate.hpp"
#include "dispatch/ck_builder.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "spec/amd/chip.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/names/name.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith::cli {
namespace {

/// More than this is a mistake in the selection far more often than a wish.
constexpr std::size_t kMostAtOnce = 20000;

struct BuildOptionsOfVerb {
  Selection selection;
  std::vector<std::string> recipes;  ///< by name; none: the selection
  std::string out;
  int workers = 0;
  std::size_t max = kMostAtOnce;
  std::string ck_version;
  std::uint32_t spill_limit = 0;  ///< build
  std::size_t sample = 0;         ///< generate
};

/// What is built, and for which architecture.
struct Wanted {
  std::string arch;
  std::vector<KernelConfig> configs;
};

/// The kernels of the recipes' steps, each once.
Result<Wanted> kernels_of_recipes(const BuildOptionsOfVerb& options) {
  Wanted wanted{.arch = options.selection.request.arch, .configs = {}};
  for (const std::string& name : options.recipes) {
    TS_ASSIGN(const Recipe recipe, parse_recipe_name(name));
    for (const Step& step : recipe.steps) {
      if (wanted.arch.empty()) wanted.arch = step.config.arch.text();
      if (step.config.arch.text() != wanted.arch)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("kernel {} is not for {}", kernel_name(step.config), wanted.arch),
                    "kernels of one architecture at a time");
      if (std::ranges::find(wanted.configs, step.config) == wanted.configs.end()) wanted.configs.push_back(step.config);
    }
  }
  return wanted;
}

/// The instances of the selection.
Result<std::vector<KernelConfig>> instances_of(const BuildOptionsOfVerb& options) {
  TS_ASSIGN(const Listing listing, options.selection.prepare());
  std::vector<KernelConfig> configs;
  ListStatistics statistics;
  TS_TRY(listing.walk(
      [&](const KernelConfig& config) {
        configs.push_back(config);
        return configs.size() <= options.max;
      },
      statistics));
  if (configs.empty()) return options.selection.holds_nothing();
  if (configs.size() > options.max)
    return fail(ErrorCode::invalid_argument, fmt::format("the selection holds more than {} instances", options.max),
                "a narrower --filter, or a larger --max");
  return configs;
}

Result<Wanted> selected(const BuildOptionsOfVerb& options) {
  if (!options.recipes.empty()) {
    if (const auto& file = options.selection.request.sweep_file; !file.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{} is a sweep file beside --kernel", file),
                  "--kernel before the name of each kernel, or a sweep file alone");
    return kernels_of_recipes(options);
  }
  if (const std::string& arch = options.selection.request.arch; !arch.empty()) {
    TS_ASSIGN(const std::vector<std::string> own, own_archs());
    if (std::ranges::find(own, arch) == own.end()) return std::unexpected(no_own_kernels(arch, "there are no kernels"));
  }
  TS_ASSIGN(std::vector<KernelConfig> configs, instances_of(options));
  return Wanted{options.selection.request.arch, std::move(configs)};
}

/// The facts of an architecture that sources are generated for.
using Facts = std::variant<CpuSpec, CudaSpec, HipSpec>;

Result<Facts> spec_of(const std::string& arch) {
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& spec : levels)
    if (spec.arch.text() == arch) return spec;
  TS_ASSIGN(const std::vector<CudaSpec> cuda, load_cuda_specs());
  for (const CudaSpec& spec : cuda)
    if (spec.arch.text() == arch) return spec;
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip)
    if (spec.arch.text() == arch) return spec;
  return std::unexpected(no_own_kernels(arch, "sources are not generated"));
}

/// How ninja turns a language's sources into binaries.
struct NinjaRule {
  std::string_view text;
  std::string_view source_suffix, binary_suffix;
};

NinjaRule ninja_rule(Language language) {
  if (language == Language::cuda)
    return {
        "# Builds one cubin for each kernel: ninja -f build.ninja\nnvcc = nvcc\n\nrule kernel\n"
        "  command = $nvcc $flags -cubin -o $out $in\n  description = $out\n\n",
        ".cu", ".cubin"};
  if (language == Language::hip)
    return {
        "# Builds one code object for each kernel: ninja -f build.ninja\nclang = clang\n\nrule kernel\n"
        "  command = $clang $flags -o $out $in\n  description = $out\n\n",
        ".cpp", ".co"};
  return {
      "# Builds one shared object for each kernel: ninja -f build.ninja\ncxx = c++\n\nrule kernel\n"
      "  command = $cxx $flags -shared -fPIC -o $out $in\n  description = $out\n\n",
      ".cpp", ".so"};
}

/// The command line's options for a source: NVRTC takes some that nvcc does not know or spells otherwise.
std::string command_options(const Source& source) {
  if (source.language == Language::hip)
    return fmt::format("{} {}", fmt::join(amdgcn_arguments(source.arch), " "), fmt::join(source.options, " "));
  if (source.language != Language::cuda) return fmt::format("{}", fmt::join(source.options, " "));
  std::string out = fmt::format("-arch={} -Xptxas=-v", source.arch);
  // Functions that both sides may evaluate are not marked for either: NVRTC takes all as the device's.
  for (const std::string& option : source.options)
    out += ' ' + (option == "-default-device" ? "--expt-relaxed-constexpr" : option);
  return out;
}

/// Ninja reads "$", ":" and space as its own.
std::string ninja_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '$' || c == ':' || c == ' ') out += '$';
    out += c;
  }
  return out;
}

/// Whether the sources are of own kernels, where an AMD chip has Composable Kernel's as well.
bool wants_own(const BuildOptionsOfVerb& options) {
  if (options.recipes.empty()) return options.selection.origin == name_of(Origin::own);
  const auto recipe = parse_recipe_name(options.recipes.front());
  return recipe && recipe->main().origin == Origin::own;
}

Status generate_sources(const BuildOptionsOfVerb& options) {
  if (find_amd_chip(options.selection.request.arch) && !wants_own(options))
    return generate_ck_folder(options.selection, {.out = options.out,
                                                  .version = options.ck_version,
                                                  .names = options.recipes,
                                                  .max = options.max,
                                                  .sample = options.sample});
  if (!options.ck_version.empty() || options.sample > 0)
    return fail(ErrorCode::invalid_argument, "--ck-version and --sample without an AMD chip", "--arch gfx950");
  TS_ASSIGN(const Wanted wanted, selected(options));
  const std::vector<KernelConfig>& configs = wanted.configs;
  TS_ASSIGN(const Facts facts, spec_of(wanted.arch));
  std::error_code code;
  std::filesystem::create_directories(options.out, code);
  if (code) return fail(ErrorCode::io, fmt::format("cannot create {}: {}", options.out, code.message()));

  std::string ninja;
  Progress progress("generating", configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i) {
    TS_ASSIGN(const Source source, std::visit([&](const auto& spec) { return generate(configs[i], spec); }, facts));
    const NinjaRule rule = ninja_rule(source.language);
    if (ninja.empty()) ninja = rule.text;
    TS_TRY(write_file_atomic(std::filesystem::path(options.out) / fmt::format("{}{}", source.name, rule.source_suffix),
                             source.text));
    ninja += fmt::format("build {0}{1}: kernel {0}{2}\n  flags = {3}\n", source.name, rule.binary_suffix,
                         rule.source_suffix, ninja_escaped(command_options(source)));
    progress.update(i + 1);
  }
  TS_TRY(write_file_atomic(std::filesystem::path(options.out) / "build.ninja", ninja));
  fmt::print("{} sources and build.ninja in {}\n", configs.size(), options.out);
  return {};
}

/// Composable Kernel's instances of the selection, or those named.
Result<Wanted> selected_ck(const BuildOptionsOfVerb& options) {
  TS_ASSIGN(const AmdChip* chip, find_amd_chip(options.selection.request.arch));
  Wanted wanted{.arch = options.selection.request.arch, .configs = {}};
  for (const std::string& name : options.recipes) {
    TS_ASSIGN(KernelConfig config, named_ck_instance(name, *chip));
    wanted.configs.push_back(std::move(config));
  }
  if (options.recipes.empty()) {
    TS_ASSIGN(wanted.configs, instances_of(options));
  }
  return wanted;
}

Status build_into_store(BuildOptionsOfVerb options) {
  // Composable Kernel's are built when they are asked for: that takes ROCm and a tree of it.
  const bool is_ck = options.selection.origin == name_of(Origin::ck);
  if (options.selection.origin.empty()) options.selection.origin = name_of(Origin::own);
  if (options.workers < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("--workers {}", options.workers),
                "1 or more, or 0 for as many as fit");
  if (!is_ck && (options.spill_limit > 0 || !options.ck_version.empty()))
    return fail(ErrorCode::invalid_argument, "--spill-limit and --ck-version without Composable Kernel's instances",
                "--origin ck; own kernels say themselves what they may spill");
  TS_ASSIGN(const Wanted wanted, is_ck ? selected_ck(options) : selected(options));
  const std::vector<KernelConfig>& configs = wanted.configs;
  // Compiling needs the architecture's facts, not its processor: every architecture can be built anywhere.
  TS_ASSIGN(const std::unique_ptr<KernelBuilder> builder,
            is_ck
                ? ck_builder_for(wanted.arch, {.version = options.ck_version, .spill_limit_bytes = options.spill_limit})
                : builder_for(wanted.arch));
  return build_kernels(*builder, configs, options.workers);
}

void add_selection(BuildOptionsOfVerb& options, CLI::App& verb) {
  options.selection.add_to(verb);
  verb.add_option("--kernel", options.recipes,
                  "The kernels of these recipes instead of a selection: names of kernels, or of steps joined by +")
      ->allow_extra_args(false);
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("generate", "Write the sources of the listed instances, and a build.ninja that builds them");
  auto options = std::make_shared<BuildOptionsOfVerb>();
  add_selection(*options, *verb);
  verb->add_option("--out", options->out, "Folder to write to")->required();
  verb->add_option("--ck-version", options->ck_version,
                   "AMD: the state of Composable Kernel that the sources are for, a month (default 2026-05)");
  verb->add_option("--sample", options->sample, "AMD: only so many sources, spread over the selection")
      ->check(positive());
  verb->add_option("--max", options->max, "Refuse selections larger than this")
      ->check(positive())
      ->capture_default_str();
  verb->callback([options, &exit_code] { exit_code = exit_code_of(generate_sources(*options)); });
}

void add_build(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("build", "Compile the listed instances into the store");
  auto options = std::make_shared<BuildOptionsOfVerb>();
  add_selection(*options, *verb);
  verb->add_option("--workers", options->workers, "Compilers at a time");
  verb->add_option("--ck-version", options->ck_version,
                   "Composable Kernel: its state that sources are for, a month (default 2026-05)");
  verb->add_option("--spill-limit", options->spill_limit,
                   "Composable Kernel: bytes of registers that a lane may spill; more fail")
      ->capture_default_str();
  verb->add_option("--max", options->max, "Refuse selections larger than this")->capture_default_str();
  verb->callback([options, &exit_code] { exit_code = exit_code_of(build_into_store(*options)); });
}

}  // namespace tilesmith::cli
