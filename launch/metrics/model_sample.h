#pragma once

#include <string>

namespace tessera {

/// A text that a model wrote for a prompt of eval.prompts.
struct ModelSample {
  std::string prompt;
  std::string text;  ///< what follows the prompt, or the target text; any bytes
};

}  // namespace tessera
