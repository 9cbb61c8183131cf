#include "launch/cli/support/text_printer.h"

#include "launch/support/text/print.h"
#include "launch/support/text/terminal.h"

namespace tessera {

TextPrinter::TextPrinter(const Communicator& world)
    : is_first_(world.rank() == 0), is_watched_(is_first_ && stdout_is_watched()) {}

void TextPrinter::add(std::string_view part) {
  if (!is_first_) return;
  is_watched_ ? write_to_stdout(terminal_.add(part)) : write_to_stdout(part);
}

}  // namespace tessera
