#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The names in data.labels, which are separated by commas. Spaces around a name are ignored.
std::vector<std::string> label_names(std::string_view labels);

/// Those of data.labels, or none.
std::vector<std::string> names_of_labels(const std::optional<std::string>& labels);

/// Why these names are not valid in data.labels, such as "each label has to have a name of its
/// own"; nullopt if they are.
std::optional<std::string> label_problem(const std::vector<std::string>& names);

}  // namespace tessera
