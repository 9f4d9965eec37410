#include "amd/program.hpp"

#include <algorithm>
#include <charconv>

#include "amd/fault.hpp"
#include "amd/operand_text.hpp"
#include "amd/operations.hpp"
#include "amd/waits.hpp"
#include "amd/wave.hpp"
#include "base/file.hpp"
#include "base/subprocess.hpp"

namespace tilesmith::amdgpu {
namespace {

/// A mnemonic without the encoding that the assembler adds.
std::string_view plain(std::string_view mnemonic) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view suffix : {"_e32", "_e64", "_sdwa", "_dpp", "_dpp8", "_vi", "_gfx9"})
      if (mnemonic.ends_with(suffix)) {
        mnemonic.remove_suffix(suffix.size());
        again = true;
      }
  }
  return mnemonic;
}

std::uint64_t hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) fault("'{}' is no hexadecimal number", text);
  return value;
}

void parse_operands(std::string_view text, std::string_view mnemonic, Instruction& into) {
  RealType real = (into.operation->flags & Operation::scalar_words) != 0 ? RealType::f32 : real_type(mnemonic);
  const std::vector<std::string_view> parts = split_outside_brackets(text, ',');
  std::vector<std::string_view> operands;
  for (const std::string_view part : parts) {
    const std::vector<std::string_view> words = split_outside_brackets(part, ' ');
    // An operand, and modifiers behind it.
    operands.push_back(words.front());
    for (std::size_t i = 1; i < words.size(); ++i) parse_modifier(words[i], into);
  }
  const bool mixed = mnemonic.starts_with("v_fma_mix");
  // The mixed products read float32 unless op_sel_hi says fp16; packed ones read the upper half for the upper result.
  if (mixed && into.modifiers.op_sel_hi == 0xff) into.modifiers.op_sel_hi = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (into.count == static_cast<int>(into.operands.size())) fault("too many operands");
    if (mixed) real = i > 0 && (into.modifiers.op_sel_hi >> (i - 1) & 1) != 0 ? RealType::f16 : RealType::f32;
    into.operands[static_cast<std::size_t>(into.count++)] = parse_operand(operands[i], real);
  }
  // RDNA's V_CMPX has no operand for what it writes: EXEC.
  if (mnemonic.starts_with("v_cmpx") && into.count == 2) {
    std::rotate(into.operands.begin(), into.operands.begin() + 2, into.operands.begin() + 3);
    std::swap(into.operands[1], into.operands[1]);
    into.operands[0] = Operand{.kind = Operand::Kind::scalar, .words = 2, .index = kExec};
    into.count = 3;
  }
}

/// One mnemonic with its operands.
void decode(std::string_view text, const Chip& chip, Instruction& into) {
  const std::size_t blank = text.find(' ');
  std::string_view mnemonic = plain(text.substr(0, blank));
  std::string dual;
  if (mnemonic.starts_with("v_dual_")) {
    dual = "v_" + std::string(mnemonic.substr(7));
    mnemonic = dual;
  }
  into.operation = find_operation(mnemonic);
  if (into.operation == nullptr) fault("the instruction {} is not known ('{}')", mnemonic, text);
  into.execute = into.operation->execute;
  std::string_view rest = blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
  while (rest.ends_with(" ")) rest.remove_suffix(1);
  into.argument = rest;
  into.waits = wait_counts(mnemonic, rest, chip);
  if ((into.operation->flags & Operation::text_operands) == 0) parse_operands(rest, mnemonic, into);
}

/// Both halves of a dual instruction read before either writes.
void execute_both(Wave& wave, const Instruction& in) {
  const int first = in.at(0).index;
  const Row before = wave.row(first);
  in.operation->execute(wave, in);
  const Row result = wave.row(first);
  wave.row(first) = before;
  in.second->execute(wave, *in.second);
  wave.row(first) = result;
}

std::string disassemble(std::string_view code_object, const std::filesystem::path& objdump) {
  const auto folder = TemporaryDirectory::create("tilesmith-amd-");
  if (!folder) fault("{}", folder.error().text());
  const auto file = folder->path() / "code.o";
  if (const auto written = write_new_file(file, code_object); !written) fault("{}", written.error().text());
  Command command{.arguments = {objdump.string(), "-d", "-z", file.string()}};
  command.kept_bytes = std::size_t{64} << 20;
  const auto outcome = run_process(command);
  if (!outcome) fault("{}", outcome.error().text());
  if (!outcome->succeeded()) fault("{} {}: {}", objdump.string(), outcome->describe(), outcome->errors);
  return outcome->output;
}

}  // namespace

Instruction decode_line(std::string_view line, const Chip& chip) {
  const std::size_t comment = line.rfind("// ");
  if (comment == std::string_view::npos) fault("no address in '{}'", line);
  std::string_view text = line.substr(0, comment), place = line.substr(comment + 3);
  while (text.ends_with(" ")) text.remove_suffix(1);
  Instruction in;
  in.text = text;
  const std::size_t colon = place.find(':');
  in.address = hexadecimal(place.substr(0, colon));
  const std::vector<std::string_view> words = split_outside_brackets(place.substr(colon + 1), ' ');
  for (const std::string_view word : words)
    if (word.size() == 8 && word.front() != '<') in.bytes += 4;
  if (!words.empty()) in.encoding = static_cast<std::uint32_t>(hexadecimal(words.front()));
  const std::size_t both = text.find(" :: ");
  decode(text.substr(0, both), chip, in);
  if (both != std::string_view::npos) {
    in.second = std::make_unique<Instruction>();
    in.second->text = text.substr(both + 4);
    decode(in.second->text, chip, *in.second);
    in.execute = execute_both;
  }
  return in;
}

Program::Program(CodeObjectImage image, std::string_view disassembly)
    : image_(std::move(image)), chip_(Chip::of(image_.chip())) {
  std::vector<std::pair<std::size_t, std::uint64_t>> branches;
  while (!disassembly.empty()) {
    const std::string_view line = disassembly.substr(0, disassembly.find('\n'));
    disassembly.remove_prefix(std::min(disassembly.size(), line.size() + 1));
    if (!line.starts_with("\t")) continue;
    instructions_.push_back(decode_line(line.substr(1), chip_));
    const Instruction& in = instructions_.back();
    if (in.operation->mnemonic == "s_branch" || in.operation->mnemonic.starts_with("s_cbranch")) {
      // SIMM16 counts words from the next instruction on.
      const auto words = std::int64_t{static_cast<std::int16_t>(in.encoding)};
      branches.emplace_back(instructions_.size() - 1, in.address + 4 + static_cast<std::uint64_t>(words * 4));
    }
  }
  for (const auto& [index, address] : branches) instructions_[index].target = static_cast<std::int32_t>(at(address));
}

std::size_t Program::at(std::uint64_t address) const {
  const auto found = std::ranges::lower_bound(instructions_, address, {}, &Instruction::address);
  if (found == instructions_.end() || found->address != address) fault("no instruction at {:#x}", address);
  return static_cast<std::size_t>(found - instructions_.begin());
}

void Program::remove(std::size_t index) {
  instructions_[index].execute = [](Wave&, const Instruction&) {};
}

void Program::restore(std::size_t index) {
  Instruction& in = instructions_[index];
  in.execute = in.second == nullptr ? in.operation->execute : execute_both;
}

Result<Program> Program::load(std::string_view code_object, const std::filesystem::path& objdump) try {
  CodeObjectImage image(code_object);
  return Program(std::move(image), disassemble(code_object, objdump));
} catch (const Fault& error) {
  return fail(ErrorCode::unsupported, error.what());
}

}  // namespace tilesmith::amdgpu
