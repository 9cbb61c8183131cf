#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// An interpreter of PTX for the kernels of probes.cu.
namespace tessera::ptx {

/// A fundamental type without its dot, such as "f32".
struct Type {
  char kind = 'b';  ///< b, u, s, f; p for a predicate
  int bits = 0;
};
Type parse_type(std::string_view text);

struct Operand {
  enum class Kind : uint8_t { reg, constant, address };
  Kind kind = Kind::constant;
  int reg = -1;       ///< index in Entry::registers; of an address, its base, or -1
  int64_t value = 0;  ///< of a constant, or the offset of an address
};

struct Instruction {
  std::string text;  ///< as written, for messages
  std::string opcode;
  std::vector<Operand> operands;  ///< those in braces one after the other
  std::vector<int> sizes;         ///< the number of operands in each pair of braces, or 1
  bool inline_asm = false;
  int file = 0, line = 0;  ///< from the last .loc
};

struct Register {
  std::string name;  ///< with the percent sign; includes special registers that are used
  Type type;
};

/// A kernel without branches, whose parameters are pointers.
struct Entry {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
};

struct Module {
  std::map<std::string, Entry> entries;
  std::map<int, std::string> files;  ///< paths, by Instruction::file
};

/// The address of dynamic shared memory in the shared window.
inline constexpr int64_t kDynamicShared = 1024;

/// Parses nvcc's PTX for probes.cu. Throws std::runtime_error, which names the line, for all other
/// PTX.
Module parse_module(const std::string& text);

}  // namespace tessera::ptx
