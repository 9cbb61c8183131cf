#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Rows of cells as lines of columns, each line indented by two spaces. The first row is the
/// header. Cells of columns in `right` (from 0) are aligned to the right.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& right = {});

/// The order in which people count names: "blocks.2" comes before "blocks.10".
bool in_natural_order(std::string_view a, std::string_view b);

/// "name       value\n": a line of a description.
std::string description_line(const std::string& name, const std::string& value);

}  // namespace tessera
