#pragma once

#include <string>

namespace tessera {

/// The command line of a process for a shell, with quotes where it needs them; "" if unknown.
std::string command_text(int process);

/// The command line that started this process, or, for a rank, its mpirun; "" if that is unknown,
/// as on another host.
std::string starting_command();

/// Whether a word is the name or path of Open MPI's launcher.
bool is_open_mpi_launcher(const std::string& word);

}  // namespace tessera
