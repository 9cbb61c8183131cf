#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Makes text of a model, a file or a checkpoint safe to show: control characters, with which it
/// could drive a terminal, become "\x1b" and the like. Line ends and tabs stay, and so does all
/// other text, valid UTF-8 or not.
class TerminalText {
 public:
  /// Returns the next piece of a text, which may begin or end within a character.
  std::string add(std::string_view piece);

 private:
  bool may_be_c1_ = false;  // the first byte of U+0080 to U+00BF came last
};

/// The same for a whole text.
std::string for_terminal(std::string_view text);

}  // namespace tessera
