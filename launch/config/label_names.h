#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The names in data.labels, which are separated by commas; spaces around a name do not count.
std::vector<std::string> label_names(std::string_view labels);

/// Why these names can not stand in data.labels, each as it is: "each label has to have a name of
/// its own"; empty if they can.
std::string label_problem(const std::vector<std::string>& names);

}  // namespace tessera
