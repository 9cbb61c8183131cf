#include "launch/support/text/print.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "core/exit_code.h"
#include "launch/support/files/file_descriptor.h"
#include "launch/support/text/terminal.h"
#include "launch/support/text/terminal_text.h"

namespace tessera {
namespace {

/// Returns an error number; 0 without an error.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // somebody who shares it does not wait for it
      pollfd ready{descriptor, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void open_standard_streams() {
  // In the mode in which its use fails, as that of a closed one does.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    if (::open("/dev/null", kModes[descriptor]) < 0) ::_exit(static_cast<int>(ExitCode::output));
  }
}

void write_to_stdout(std::string_view bytes) {
  const int error = write_all(STDOUT_FILENO, bytes);
  if (error == 0) return;
  throw CodedError("standard output cannot be written: " + system_message(error), ExitCode::output);
}

void print_text(std::string_view text) { write_to_stdout(for_terminal(text)); }

void print_exactly(std::string_view text) {
  stdout_is_watched() ? print_text(text) : write_to_stdout(text);
}

std::optional<std::string> try_to_print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, for_terminal(text));
  return error == 0 ? std::nullopt : std::optional(system_message(error));
}

void print_message(std::string_view text) { write_all(STDERR_FILENO, for_terminal(text)); }

void write_as_is(int descriptor, std::string_view bytes) { write_all(descriptor, bytes); }

}  // namespace tessera
