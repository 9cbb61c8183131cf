#pragma once

#include <string>
#include <vector>

#include "core/shape.h"
#include "models/model_config.h"

namespace tessera {

/// Rows of the embedding of token types that stand in for none: a pair has two, and zeros add
/// nothing.
inline constexpr int64_t kZeroTokenTypes = 2;

/// A parameter under its names on both sides.
struct TensorName {
  /// Tessera's; empty for one that Tessera's model leaves out and that is all zeros in Hugging
  /// Face's: a bias where model.bias is false, token types where there are none.
  std::string ours;
  Shape shape;  ///< Tessera's
  /// Hugging Face's: one tensor with all elements, or one for each row of the first dim, as the
  /// queries, keys and values of BERT.
  std::vector<std::string> theirs;
  Shape their_shape;  ///< of each of `theirs`
  /// Theirs is (in, out), as GPT-2's Conv1D has it; ours is (out, in), or (3, out, in).
  bool transposed = false;
};

/// All tensors of a model, in the order of the forward pass. The names are those that
/// `transformers` writes; where `model` is all that model_class_of() takes, they are all that it
/// reads.
std::vector<TensorName> tensor_names(const ModelConfig& model);

}  // namespace tessera
