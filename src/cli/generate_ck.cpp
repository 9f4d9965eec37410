#include "cli/generate_ck.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.hpp"
#include "codegen/ck.hpp"
#include "instances/attention/ck.hpp"
#include "vocabulary/names/ck.hpp"

namespace tilesmith::cli {
namespace {

namespace fs = std::filesystem;

/// Whether the file holds exactly this. Paths are relative to an open folder: the kernel need not walk the folder's own
/// path for every one of a million files.
bool holds(int folder, const char* path, std::string_view content, std::string& buffer) {
  const FileDescriptor file(::openat(folder, path, O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::size_t>(status.st_size) != content.size())
    return false;
  buffer.resize(content.size());
  return ::read(file.get(), buffer.data(), buffer.size()) == static_cast<ssize_t>(buffer.size()) && buffer == content;
}

/// Sources are made again at will, so they are neither synced nor renamed into place: a list of a million would wait
/// for the disk a million times. What a crash leaves differs from what belongs there, and the next run replaces it.
Status write_if_changed(int folder, const char* path, std::string_view content, std::string& buffer) {
  // A new file, which most are, takes one call to open.
  FileDescriptor file(::openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) {
    if (errno == EEXIST && holds(folder, path, content, buffer)) return {};
    file = FileDescriptor(::openat(folder, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  }
  if (!file) return std::unexpected(system_error("cannot create", path, errno));
  return write_descriptor(file.get(), path, content);
}

/// Ninja reads "$", ":" and space as its own.
std::string ninja_word(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '$' || c == ':' || c == ' ') out += '$';
    out += c;
  }
  return out;
}

class Folder {
 public:
  Folder(CkWriter writer, const CkFolder& folder, std::string arch)
      : writer_(std::move(writer)), out_(folder.out), arch_(std::move(arch)) {}

  /// Error: unsupported, for an instance that has no source.
  [[nodiscard]] Status add(const KernelConfig& config);
  [[nodiscard]] Status close();
  [[nodiscard]] std::size_t written() const { return written_; }

 private:
  [[nodiscard]] Status open();
  [[nodiscard]] Status file(const std::string& name, std::string_view content) {
    return write_if_changed(folder_.get(), name.c_str(), content, buffer_);
  }

  CkWriter writer_;
  std::string out_, arch_;
  FileDescriptor folder_{-1}, kernels_{-1};
  std::string text_, buffer_, path_;
  std::string declarations_, table_, ninja_, objects_;
  std::size_t written_ = 0;
  Operation operation_ = Operation::attention;
};

Status make_directory(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return fail(ErrorCode::io, fmt::format("cannot create {}: {}", path, code.message()));
  return {};
}

Status Folder::open() {
  TS_TRY(make_directory(out_ + "/tilesmith_ck"));
  TS_TRY(make_directory(out_ + "/kernels"));
  for (const auto& [descriptor, path] : {std::pair(&folder_, out_), std::pair(&kernels_, out_ + "/kernels")}) {
    *descriptor = FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!*descriptor) return std::unexpected(system_error("cannot open", path, errno));
  }
  for (const EmbeddedFile& header : ck_support_headers())
    TS_TRY(file(fmt::format("tilesmith_ck/{}", header.path), header.text));
  return {};
}

Status Folder::add(const KernelConfig& config) {
  CkWriter::Written names;
  TS_TRY(writer_.write(config, text_, &names));
  if (!folder_) TS_TRY(open());  // a selection without a source leaves nothing behind
  // The name may be shared by several records; the key is the record's own.
  path_.assign(names.name).append(1, '.').append(names.key, 0, 12).append(".cpp");
  TS_TRY(write_if_changed(kernels_.get(), path_.c_str(), text_, buffer_));
  path_.resize(path_.size() - 4);
  operation_ = config.operation();
  for (const std::string_view part :
       {std::string_view("const "), CkWriter::dispatch_names(operation_).instance, std::string_view("& k_"),
        std::string_view(names.key), std::string_view("();  // "), std::string_view(names.name)})
    declarations_ += part;
  declarations_ += '\n';
  table_.append("    &k_").append(names.key).append(",\n");
  const std::string stem = ninja_word(path_);
  ninja_.append("build kernels/").append(stem).append(".o: kernel kernels/").append(stem).append(".cpp\n  own =");
  for (const std::string& option : writer_.options_of(config)) ninja_.append(1, ' ').append(option);
  ninja_ += '\n';
  objects_.append(" $\n    kernels/").append(stem).append(".o");
  ++written_;
  return {};
}

Status Folder::close() {
  const std::string from =
      fmt::format("// Written by tilesmith generate for Composable Kernel {} and {}.\n", writer_.version(), arch_);
  const CkWriter::DispatchNames names = CkWriter::dispatch_names(operation_);
  const auto named = [&](std::string text) {
    for (const auto& [word, name] :
         {std::pair<std::string_view, std::string_view>{"INSTANCE", names.instance}, {"HEADER", names.header}})
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
        text.replace(at, word.size(), name);
    return text;
  };
  TS_TRY(file("dispatch.h",
              named(fmt::format("{}#pragma once\n\n#include \"tilesmith_ck/HEADER\"\n\n"
                                "#define TILESMITH_CK_KERNEL_COUNT {}\n\nnamespace tilesmith_ck {{\n\n{}\n"
                                "/// Adds every instance to the registry; returns how many there are.\n"
                                "int register_instances(Registry<INSTANCE>& registry);\n\n"
                                "}}  // namespace tilesmith_ck\n\n"
                                "/// The instances' names, in the order of their registration; null past the end.\n"
                                "extern \"C\" int tilesmith_ck_kernel_count();\n"
                                "extern \"C\" const char* tilesmith_ck_kernel_name(int i);\n",
                                from, written_, declarations_))));
  TS_TRY(file("dispatch.cpp",
              named(fmt::format("{}#include \"dispatch.h\"\n\nnamespace tilesmith_ck {{\nnamespace {{\n\n"
                                "constexpr const INSTANCE& (*kInstances[])() = {{\n{}}};\n\n}}  // namespace\n\n"
                                "int register_instances(Registry<INSTANCE>& registry) {{\n"
                                "  for (const auto instance : kInstances) registry.add(instance());\n"
                                "  return TILESMITH_CK_KERNEL_COUNT;\n}}\n\n}}  // namespace tilesmith_ck\n\n"
                                "extern \"C\" int tilesmith_ck_kernel_count() {{ return TILESMITH_CK_KERNEL_COUNT; }}\n"
                                "extern \"C\" const char* tilesmith_ck_kernel_name(int i) {{\n"
                                "  return i >= 0 && i < TILESMITH_CK_KERNEL_COUNT ? tilesmith_ck::kInstances[i]().name"
                                " : nullptr;\n}}\n",
                                from, table_))));
  TS_TRY(file(
      "build.ninja",
      fmt::format("# Builds libtilesmith_ck_{0}.so with hipcc or amdclang++:\n"
                  "#   TILESMITH_CK_DIR=<a tree of Composable Kernel> ninja\n"
                  "hipcc = $${{HIPCC:-hipcc}}\n"
                  "flags = -x hip {1} -I. -I\"$${{TILESMITH_CK_DIR:?names a tree of Composable Kernel}}/include\"\n\n"
                  "rule kernel\n  command = $hipcc $flags $own -MMD -MF $out.d -c -o $out $in\n"
                  "  depfile = $out.d\n  deps = gcc\n  description = $out\n\n"
                  "rule library\n  command = $hipcc -shared -o $out @$out.rsp\n  rspfile = $out.rsp\n"
                  "  rspfile_content = $in\n  description = $out\n\n"
                  "build dispatch.o: kernel dispatch.cpp\n  own =\n{2}"
                  "build libtilesmith_ck_{0}.so: library dispatch.o{3}\ndefault libtilesmith_ck_{0}.so\n",
                  arch_, fmt::join(writer_.options(), " "), ninja_, objects_)));
  return {};
}

}  // namespace

Result<KernelConfig> named_ck_instance(const std::string& name, const AmdChip& chip) {
  TS_ASSIGN(KernelConfig config, parse_ck_name(name));
  config.arch = chip.arch;
  if (config.operation() == Operation::attention) {
    const auto& spec = amd_attention_spec();
    if (!spec) return std::unexpected(spec.error());
    complete_amd_attention(*spec, config);
  }
  return config;
}

Status generate_ck_folder(const Selection& selection, const CkFolder& options) {
  TS_ASSIGN(const AmdChip* chip, find_amd_chip(selection.request.arch));
  TS_ASSIGN(CkWriter writer, CkWriter::create(*chip, options.version));
  Folder folder(std::move(writer), options, std::string(chip->arch.text()));
  if (!options.names.empty()) {
    for (const std::string& name : options.names) {
      TS_ASSIGN(const KernelConfig config, named_ck_instance(name, *chip));
      TS_TRY(folder.add(config));
    }
    TS_TRY(folder.close());
    fmt::print("{} sources in {}\n", folder.written(), options.out);
    return {};
  }
  TS_ASSIGN(const Listing listing, selection.prepare());
  ListStatistics statistics;
  std::map<std::string, std::pair<std::size_t, std::string>> refused;  // by rule or reason: how many, the first
  Status status;
  std::size_t seen = 0, accepted = 0, step = 1;
  if (options.sample > 0) {
    // A first walk counts those that have a source.
    std::string text;
    TS_ASSIGN(CkWriter counting, CkWriter::create(*chip, options.version));
    TS_TRY(listing.walk(
        [&](const KernelConfig& config) {
          const Status counted = counting.write(config, text);
          accepted += counted ? 1 : 0;
          if (!counted && refused.empty()) refused[counted.error().message] = {1, counted.error().message};
          return true;
        },
        statistics));
    if (accepted > 0) refused.clear();
    step = std::max<std::size_t>(1, accepted / options.sample);
    accepted = 0;
    statistics = {};
  }
  std::string probe;
  TS_ASSIGN(CkWriter probing, CkWriter::create(*chip, options.version));
  TS_TRY(listing.walk(
      [&](const KernelConfig& config) {
        if (++seen > options.max) {
          status =
              fail(ErrorCode::invalid_argument, fmt::format("the selection holds more than {} instances", options.max),
                   "a narrower --filter, or a larger --max");
          return false;
        }
        if (options.sample > 0) {
          if (!probing.write(config, probe)) return true;
          if (accepted++ % step != 0 || folder.written() == options.sample) return folder.written() < options.sample;
        }
        const Status added = folder.add(config);
        if (added) return true;
        if (added.error().code != ErrorCode::unsupported) {
          status = added;
          return false;
        }
        // "NAME: rule R: figures" or "NAME: reason"
        std::string reason = added.error().message.substr(added.error().message.find(": ") + 2);
        if (reason.starts_with("rule ")) reason.resize(reason.find(':'));
        auto& [count, first] = refused[reason];
        if (count++ == 0) first = added.error().message;
        return true;
      },
      statistics));
  TS_TRY(status);
  if (seen == 0) return selection.holds_nothing();
  if (folder.written() == 0)
    return fail(ErrorCode::unsupported,
                fmt::format("no instance of the selection has a source: {}", refused.begin()->second.second),
                "tilesmith explain NAME says which rules refuse an instance");
  TS_TRY(folder.close());
  fmt::print("{} sources, dispatch.h and build.ninja in {}\n", folder.written(), options.out);
  for (const auto& [reason, entry] : refused) fmt::print("{} without a source: {}\n", entry.first, reason);
  return {};
}

}  // namespace tilesmith::cli
