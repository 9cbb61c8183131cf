#pragma once

namespace tessera {

/// Returns whether this process's standard output, or standard error, is shown on a terminal.
/// mpirun gives rank 0 a pseudo-terminal even if its own output goes to a file or pipe. Behind a
/// launcher, the answer is therefore that of the nearest ancestor with a different output. If in
/// doubt, returns false.
bool stdout_is_watched();
bool stderr_is_watched();

}  // namespace tessera
