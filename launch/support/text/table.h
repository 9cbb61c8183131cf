#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Formats rows of cells as aligned columns, indented by two spaces. The first row is the header.
/// Columns in `right` (from 0) are right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& right = {});

/// Natural order: "blocks.2" comes before "blocks.10".
bool in_natural_order(std::string_view a, std::string_view b);

/// Returns "name       value\n", a line of a description.
std::string description_line(const std::string& name, const std::string& value);

}  // namespace tessera
