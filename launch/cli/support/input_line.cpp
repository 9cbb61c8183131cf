#include "launch/cli/support/input_line.h"

#include <cstdio>
#include <iostream>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

bool read_input_line(std::string_view command, std::string& line) {
  line.clear();
  for (int c = std::cin.get(); c != EOF && c != '\n'; c = std::cin.get()) {
    line += static_cast<char>(c);
    check_input_line(command, line);
  }
  return std::cin || !line.empty();
}

void check_input_line(std::string_view command, std::string_view line) {
  require(line.size() <= kMaxLineBytes,
          "{}: a line of standard input has more than {} bytes, the most that it may have: shorten "
          "it",
          command, kMaxLineBytes);
}

std::optional<std::string> next_input_line(const std::function<bool(std::string& line)>& read,
                                           Communicator& world) {
  std::string found;  // with a character before it, so that the end differs from a line
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    for (std::string line; found.empty() && read(line);) {
      if (line.find_first_not_of(" \t\r") != std::string::npos) found = "=" + line;
    }
  });
  found = broadcast_string(world, found, 0);
  if (found.empty()) return std::nullopt;
  return found.substr(1);
}

}  // namespace tessera
