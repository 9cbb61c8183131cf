#pragma once

#include <string_view>

#include "launch/support/text/terminal_text.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Prints generated texts on the first rank, in parts. A file or a pipe gets the bytes of the
/// model, a terminal nothing that drives it.
class TextPrinter {
 public:
  explicit TextPrinter(const Communicator& world);

  /// Whether the output is shown on a terminal; false on other ranks than the first.
  bool is_watched() const { return is_watched_; }

  /// A text ends with a line end.
  void add(std::string_view part);

 private:
  bool is_first_, is_watched_;
  TerminalText terminal_;
};

}  // namespace tessera
