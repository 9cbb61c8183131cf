#pragma once

#include "tests/cuda/ptx/warp.h"

namespace tessera::ptx {

/// An instruction as the PTX ISA describes it.
struct Rule {
  std::string_view opcode;
  /// The types of the operands, with xN for N in braces. [shared] and [global] are addresses,
  /// [param] is a parameter.
  std::string_view operands;
  /// Runs it, once for each lane or for the whole warp.
  void (*lane)(Warp& warp, const Operand* operands, int lane);
  void (*warp)(Warp& warp, const Operand* operands);
};

/// Returns null if the instruction is not known.
const Rule* find_rule(std::string_view opcode);

/// Returns how the operands violate the rule, or nothing.
std::string operand_error(const Rule& rule, const Instruction& instruction, const Entry& entry);

}  // namespace tessera::ptx
