#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The names in data.labels, which are separated by commas; spaces around a name do not count.
std::vector<std::string> label_names(std::string_view labels);

}  // namespace tessera
