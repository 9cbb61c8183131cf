#pragma once

#include <string_view>

namespace tessera {

/// The style sheet of an attention page.
extern const std::string_view kPageStyle;

/// The script of an attention page: exact numbers for the cell under the pointer, in all heads.
extern const std::string_view kPageScript;

}  // namespace tessera
