#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/huggingface/import/foreign_weights.h"
#include "launch/huggingface/model_class.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// The locations of a model's tensors in a folder's files.
struct MatchedTensors {
  /// Maps names in TensorName::theirs to names in the files.
  std::map<std::string, std::string> stored;
  /// Tensors of heads that the model lacks, by their names in the files.
  std::vector<std::string> left_out;
};

/// The names of a class's output head, where it is the word embedding, and of this embedding.
struct TiedNames {
  std::string head, words;
};

TiedNames tied_names(ModelClass model_class);

/// Whether the files have an output head that differs from the embedding of words.
bool has_own_head(const ForeignWeights& weights, ModelClass model_class);

/// Finds all of `names` in the files, with or without the base model's prefix ("transformer.",
/// "bert."), and with the old names of norms' weights (gamma, beta). Ignores buffers, and a stored
/// head that equals the embedding it is tied to. Throws, naming the tensors, if one is missing, has
/// another shape, has no place in the model, or exists twice, or if such a head differs. `tied` is
/// false if config.json says that the head is separate; it must then exist, to be compared.
MatchedTensors match_tensors(const ForeignWeights& weights, const std::vector<TensorName>& names,
                             ModelClass model_class, bool tied);

}  // namespace tessera
