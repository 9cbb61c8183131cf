#pragma once

#include "tests/cuda/ptx/block.h"

namespace tessera::ptx {

/// An instruction as the PTX ISA describes it.
struct Rule {
  std::string_view opcode;
  /// The types of the operands, with xN for N in braces. [shared] and [global] are addresses,
  /// [param] is a parameter.
  std::string_view operands;
  /// Runs it, once for each lane or for each warp, whose first lane is given.
  void (*lane)(Block& block, const Operand* operands, int lane);
  void (*warp)(Block& block, const Operand* operands, int first);
};

/// The rule of an instruction: with several of its opcode, the one that its operands satisfy, or
/// the first. Returns null if the instruction is not known.
const Rule* find_rule(const Instruction& instruction, const Entry& entry);

/// Returns how the operands violate the rule, or nothing.
std::string operand_error(const Rule& rule, const Instruction& instruction, const Entry& entry);

}  // namespace tessera::ptx
