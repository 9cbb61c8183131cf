#pragma once

#include <string>
#include <string_view>

#include "launch/tools/mask/mask_view.h"

namespace tessera {

/// Renders a view as one HTML page without scripts or external resources: a picture for each kind
/// of layer, queries down and keys across, in which the tiles that kernels skip are hatched and the
/// ends of documents are lines. `title` names the configuration. Follows the reader's color scheme.
std::string to_html(const MaskView& view, std::string_view title);

}  // namespace tessera
