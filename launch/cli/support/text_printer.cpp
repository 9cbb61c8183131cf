#include "launch/cli/support/text_printer.h"

#include <cstdio>
#include <string>

#include "launch/support/text/terminal.h"

namespace tessera {

TextPrinter::TextPrinter(const Communicator& world)
    : is_first_(world.rank() == 0), is_watched_(is_first_ && stdout_is_watched()) {}

void TextPrinter::add(std::string_view part) {
  if (!is_first_) return;
  const std::string shown = is_watched_ ? terminal_.add(part) : std::string(part);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

}  // namespace tessera
