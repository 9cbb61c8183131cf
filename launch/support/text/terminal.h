#pragma once

namespace tessera {

/// Whether somebody watches this process's standard output, or its standard error, on a terminal.
/// mpirun gives rank 0 a pseudo-terminal even where its own output goes to a file or a pipe, so
/// behind a launcher the question is asked of the nearest ancestor whose output is another one.
/// What can not be found out is no terminal.
bool stdout_is_watched();
bool stderr_is_watched();

}  // namespace tessera
