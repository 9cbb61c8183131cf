#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Makes text of a model, a file, a checkpoint or a command line safe to show. What could drive a
/// terminal, or make a text look like another one, becomes an escape: control characters ("\x1b",
/// "\u009b"), bytes that are not UTF-8 ("\xff"), and characters that reverse the direction of what
/// follows ("\u202e"). Line ends and tabs stay. JSON keeps its meaning.
class TerminalText {
 public:
  /// Returns the next piece of a text. Keeps back a character that `piece` only begins.
  std::string add(std::string_view piece);

 private:
  std::string begun_;
};

/// Makes a whole text safe in the same way.
std::string for_terminal(std::string_view text);

}  // namespace tessera
