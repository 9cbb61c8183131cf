#pragma once

#include "launch/config/values/config_value.h"

namespace tessera {

/// Reads one YAML document; empty text yields null. Throws, with name, line and column, on
/// syntax errors, anchors, aliases, tags, keys that are not scalars, nesting deeper than a
/// configuration needs, and a second document.
ConfigValue read_yaml(const SourceText& source);

}  // namespace tessera
