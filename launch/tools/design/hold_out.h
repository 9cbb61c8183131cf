#pragma once

#include <string>

namespace tessera {

/// Moves about `share` of a dataset's tokens to a new dataset, in up to a hundred pieces from
/// everywhere, so that both have all kinds of text that the dataset has. A document that is cut
/// becomes several. The dataset needs metadata and its tokenizer.
void hold_out(const std::string& dataset, double share, const std::string& held_out);

}  // namespace tessera
