#pragma once

#include "core/tensor.h"

namespace tessera {

/// Scores of a model for each of N targets: (N) fp32, or undefined where they are not asked for.
struct TargetScores {
  Tensor losses = {};   ///< −log p(target)
  Tensor margins = {};  ///< the target's logit − the largest logit: 0 if no token is likelier
};

}  // namespace tessera
