#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/exit_code.h"

namespace tessera {

/// Meaning of an exit code, and the reaction of `tessera supervise`.
struct ExitCodeMeaning {
  ExitCode code;
  bool restarts;               ///< whether `supervise` starts such a run again
  std::string_view name;       ///< "hang"
  std::string_view meaning;    ///< a sentence without its full stop
  std::string_view supervise;  ///< "starts again"
};

/// All exit codes of `tessera`, in order.
std::span<const ExitCodeMeaning> exit_codes();

/// Null for a code that `tessera` does not end with.
const ExitCodeMeaning* find_exit_code(int code);

/// The table as text for --help, and as Markdown for docs/reliability.md.
std::string exit_codes_text();
std::string exit_codes_markdown();

}  // namespace tessera
