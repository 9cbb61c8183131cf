#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Whether a pattern of the shell (fnmatch(3)) matches the whole of a parameter's or layer's name:
/// `*` stands for any text, `?` for a character, `[0-3]` for one of these. Case matters.
bool matches(const std::string& pattern, const std::string& name);

/// Whether one of the patterns does.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace tessera
