#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture.h"

namespace tessera {

// Texts of configuration keys about architectures, from the table in models/architecture.cpp.

/// The values of model.kind.
std::vector<std::pair<std::string_view, ModelKind>> model_kinds();

/// "`gpt2` is a decoder that predicts the next token; `bert` is ..."
std::string model_kind_summaries();

/// The architectures for which `has` is true: "bert or roberta", each between two `quote`s.
std::string kinds_with(bool Architecture::*has, std::string_view quote = "");

}  // namespace tessera
