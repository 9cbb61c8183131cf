#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Returns whether this process's standard output, or standard error, is shown on a terminal.
/// mpirun gives rank 0 a pseudo-terminal even if its own output goes to a file or pipe. Behind a
/// launcher, the answer is therefore that of the nearest ancestor with a different output. If in
/// doubt, returns false.
bool stdout_is_watched();
bool stderr_is_watched();

/// Characters in a line of the terminal that shows a file, also behind a launcher; nullopt if
/// unknown.
std::optional<size_t> terminal_width(int descriptor);

inline constexpr size_t kUsualWidth = 80;

/// The first `most` characters of UTF-8 text, each of which fills one column.
std::string first_columns(const std::string& text, size_t most);

/// Fields with two spaces between them, in lines of at most `width`; all but the first are
/// indented.
std::string in_columns(const std::vector<std::string>& fields, size_t width);

/// Text whose lines break between words if they are wider than `width`; the rest is indented.
std::string wrapped(const std::string& text, size_t width);

}  // namespace tessera
