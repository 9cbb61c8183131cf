#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

// The only way to write to standard output and standard error. Nothing is buffered, so no error is
// lost at the end of the program.

/// Opens those of the descriptors 0 to 2 that are closed, so that no file gets one of them and with
/// it the texts for the terminal. Their use still fails.
void open_standard_streams();

/// Writes results to standard output as they are. Throws, with ExitCode::output, if that fails, as
/// on a full disk or if nobody reads the pipe.
void write_to_stdout(std::string_view bytes);

/// Writes text for people to standard output, escaped by for_terminal(), which keeps JSON. Throws
/// as write_to_stdout() does.
void print_text(std::string_view text);

/// print_text() in fmt's syntax.
template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Prints the bytes of `text` to a file or a pipe; escapes them only on a terminal.
void print_exactly(std::string_view text);

/// Returns why `text` could not be printed, or nullopt, for output that a command does without.
std::optional<std::string> try_to_print(std::string_view text);

/// Writes a message, escaped, to standard error. If that fails, nobody reads messages, and the
/// exit code must do.
void print_message(std::string_view text);

/// print_message() in fmt's syntax.
template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  print_message(fmt::format(format, std::forward<Args>(args)...));
}

/// Writes what drives a terminal, or what another program says. Ignores errors.
void write_as_is(int descriptor, std::string_view bytes);

}  // namespace tessera
