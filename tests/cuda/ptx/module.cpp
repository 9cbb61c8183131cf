#include "tests/cuda/ptx/module.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tessera::ptx {
namespace {

constexpr std::string_view kSpaces = " \t";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

/// Removes and returns what precedes `separator`, or all of the text.
std::string_view take(std::string_view& text, std::string_view separator) {
  const size_t at = text.find_first_of(separator);
  const std::string_view part = text.substr(0, at);
  text = at == text.npos ? std::string_view{} : text.substr(at + 1);
  return trim(part);
}

[[noreturn]] void fail(std::string_view line, const std::string& why) {
  throw std::runtime_error("PTX \"" + std::string(trim(line)) + "\": " + why);
}

int64_t parse_number(std::string_view text, std::string_view line) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) fail(line, "expected a number: " + std::string(text));
  return number;
}

class Parser {
 public:
  Module parse(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::string_view rest = line;
      if (const size_t comment = rest.find("//"); comment != rest.npos) {
        const std::string_view said = trim(rest.substr(comment + 2));
        if (said == "begin inline asm") inline_asm_ = true;
        if (said == "end inline asm") inline_asm_ = false;
        rest = rest.substr(0, comment);
      }
      rest = trim(rest);
      if (rest.empty() || rest == "{" || rest == ")" || (inline_asm_ && rest == "}")) continue;
      if (rest.starts_with(".")) {
        parse_directive(rest);
      } else if (rest == "}") {
        entry_ = nullptr;
      } else if (entry_ != nullptr) {
        while (!rest.empty()) parse_instruction(take(rest, ";"));
      }
    }
    return std::move(module_);
  }

 private:
  void parse_directive(std::string_view line) {
    std::string_view rest = line;
    const std::string_view directive = take(rest, kSpaces);
    if (directive == ".visible") {  // .entry NAME(
      take(rest, kSpaces);
      const std::string name(take(rest, "("));
      entry_ = &module_.entries[name];
      entry_->name = name;
    } else if (directive == ".param" && entry_ != nullptr) {  // .u64 NAME,
      if (const auto type = take(rest, kSpaces); type != ".u64") fail(line, "expected a pointer");
      entry_->parameters.emplace_back(take(rest, ","));
    } else if (directive == ".reg") {  // .b32 %r<5>;
      const Type type = parse_type(take(rest, kSpaces).substr(1));
      if (rest.find('<') == rest.npos) {  // NAME; of inline asm, in each of its blocks
        const std::string name(take(rest, ";"));
        const auto is_it = [&](const Register& known) { return known.name == name; };
        auto& all = entry_->registers;
        if (std::none_of(all.begin(), all.end(), is_it)) all.push_back({name, type});
        return;
      }
      const std::string stem(take(rest, "<"));
      const auto count = parse_number(take(rest, ">"), line);
      for (int64_t i = 0; i < count; ++i) {
        entry_->registers.push_back({stem + std::to_string(i), type});
      }
    } else if (directive == ".loc") {  // FILE LINE ...
      file_ = static_cast<int>(parse_number(take(rest, kSpaces), line));
      line_ = static_cast<int>(parse_number(take(rest, kSpaces), line));
    } else if (directive == ".file") {  // FILE "PATH"
      const auto file = static_cast<int>(parse_number(take(rest, kSpaces), line));
      take(rest, "\"");
      module_.files[file] = take(rest, "\"");
    } else if (directive == ".extern") {  // .shared .align 16 .b8 NAME[];
      if (!rest.starts_with(".shared")) fail(line, "expected dynamic shared memory");
      const std::string_view declared = take(rest, "[");
      dynamic_shared_ = declared.substr(declared.find_last_of(kSpaces) + 1);
    } else if (entry_ != nullptr) {
      fail(line, "unknown directive");
    }
  }

  void parse_instruction(std::string_view text) {
    Instruction instruction;
    instruction.text = text;
    instruction.inline_asm = inline_asm_;
    instruction.file = file_;
    instruction.line = line_;
    std::string_view rest = text;
    instruction.opcode = take(rest, kSpaces);
    for (rest = trim(rest); !rest.empty(); rest = trim(rest)) {
      if (rest.starts_with("{")) {
        std::string_view group = take(rest, "}").substr(1);
        take(rest, ",");
        int size = 0;
        for (; !group.empty(); ++size) {
          instruction.operands.push_back(parse_operand(take(group, ","), text));
        }
        instruction.sizes.push_back(size);
      } else {
        instruction.operands.push_back(parse_operand(take(rest, ","), text));
        instruction.sizes.push_back(1);
      }
    }
    entry_->instructions.push_back(std::move(instruction));
  }

  Operand parse_operand(std::string_view text, std::string_view line) {
    if (text.starts_with("[")) {  // [NAME], [NAME+OFFSET]
      std::string_view rest = text.substr(1, text.size() - 2);
      Operand operand = parse_operand(take(rest, "+"), line);
      operand.kind = Operand::Kind::address;
      if (!rest.empty()) operand.value += parse_number(rest, line);
      return operand;
    }
    Operand operand;
    const auto is_register = [&](const Register& known) { return known.name == text; };
    if (text.starts_with("%") ||
        std::any_of(entry_->registers.begin(), entry_->registers.end(), is_register)) {
      operand.kind = Operand::Kind::reg;
      operand.reg = find_register(text, line);
    } else if (text == dynamic_shared_) {
      operand.value = kDynamicShared;
    } else if (const auto& names = entry_->parameters;
               std::find(names.begin(), names.end(), text) != names.end()) {
      operand.value = std::find(names.begin(), names.end(), text) - names.begin();
    } else {
      operand.value = parse_number(text, line);
    }
    return operand;
  }

  int find_register(std::string_view name, std::string_view line) {
    auto& all = entry_->registers;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Register& r) { return r.name == name; });
    const auto index = static_cast<int>(found - all.begin());
    if (found == all.end()) {
      if (name.find('.') == name.npos) fail(line, "unknown register " + std::string(name));
      all.push_back({std::string(name), {'u', 32}});  // a special register, such as %tid.x
    }
    return index;
  }

  Module module_;
  Entry* entry_ = nullptr;
  std::string dynamic_shared_;
  bool inline_asm_ = false;
  int file_ = 0, line_ = 0;
};

}  // namespace

Type parse_type(std::string_view text) {
  if (text == "pred") return {'p', 1};
  return {text.at(0), static_cast<int>(parse_number(text.substr(1), text))};
}

Module parse_module(const std::string& text) { return Parser().parse(text); }

}  // namespace tessera::ptx
