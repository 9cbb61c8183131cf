#pragma once

#include <string>
#include <vector>

#include "core/shape.h"
#include "models/model_config.h"

namespace tessera {

/// Rows of the all-zero token type embedding that stands in for a missing one: a pair has two
/// types, and zeros add nothing.
inline constexpr int64_t kZeroTokenTypes = 2;

struct TheirTensor {
  std::string name;
  Shape shape;
};

/// A parameter with its names on both sides.
struct TensorName {
  /// Tessera's name; empty for a tensor that Tessera's model omits and that is all zeros in Hugging
  /// Face's: a bias if model.bias is false, or absent token types.
  std::string ours;
  Shape shape;  ///< Tessera's shape
  /// Hugging Face's tensors: one with all elements, or several, as for BERT's queries, keys and
  /// values. Ours has the first 1/groups of each in turn, then the second, and so on.
  std::vector<TheirTensor> theirs;
  int64_t groups = 1;
  /// Theirs is (in, out), as in GPT-2's Conv1D; ours is (out, in), or (3, out, in).
  bool transposed = false;
  /// Leading rows of theirs that ours lacks, such as those before RoBERTa's first position: ignored
  /// by an import, zeros in an export.
  int64_t unused_rows = 0;
};

/// The leading rows of RoBERTa's position embedding that no position uses: positions are counted
/// from the one after the padding token's id.
constexpr int64_t unused_positions(int64_t padding_token) { return padding_token + 1; }
/// The id that RoBERTa's configuration class has.
inline constexpr int64_t kRobertaPadding = 1;

/// Prefix of the names of a model's tensors in the files of its adapters.
inline constexpr const char* kPeftPrefix = "base_model.model.";

/// The layer that a weight or bias belongs to: its name up to the last dot.
inline std::string layer_name(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

/// All tensors of a model, in the order of the forward pass, under the names that `transformers`
/// writes. If model_class_of() accepts `model`, these are all the tensors that it reads.
/// `padding_token` matters only for RoBERTa.
std::vector<TensorName> tensor_names(const ModelConfig& model,
                                     int64_t padding_token = kRobertaPadding);

}  // namespace tessera
