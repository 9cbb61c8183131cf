#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Properties of every kind of communicator. A case is collective: every rank calls `body` with its
/// communicator of one group, of any size.
struct CommunicatorCase {
  const char* name;
  void (*body)(Communicator& group);
};

/// Names the test of a case on a number of ranks.
inline constexpr auto name_of_case = [](const auto& instance) {
  const auto& [the_case, ranks] = instance.param;
  return std::string(the_case.name) + "_" + std::to_string(ranks);
};

inline std::ostream& operator<<(std::ostream& stream, const CommunicatorCase& the_case) {
  return stream << the_case.name;
}

/// Reductions and copies.
std::vector<CommunicatorCase> data_cases();

/// Messages and all-to-all.
std::vector<CommunicatorCase> exchange_cases();

/// Pending collectives.
std::vector<CommunicatorCase> pending_cases();

/// Splits, invalid arguments, and functions built on a communicator.
std::vector<CommunicatorCase> group_cases();

/// All cases.
const std::vector<CommunicatorCase>& communicator_cases();

}  // namespace tessera
