#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/huggingface/import/foreign_weights.h"
#include "launch/huggingface/model_class.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// Where a model's tensors are in a folder's files.
struct MatchedTensors {
  /// From the names of TensorName::theirs to those in the files.
  std::map<std::string, std::string> stored;
  /// Those of heads that the model has not, by their names in the files.
  std::vector<std::string> left_out;
};

/// Finds all of `names` in the files: with the base model's prefix ("transformer.", "bert.") or
/// without, norms' weights also as old files call them (gamma, beta). Buffers, which are no
/// weights, are passed over; so is a head that is there beside the embedding that it is tied to,
/// if both are the same. Throws, naming the tensors, if any is missing, has another shape, has no
/// place in the model, or is there twice, or if such a head is another. `tied` is false if
/// config.json says that the head is one of its own: it has to be there then, to be compared.
MatchedTensors match_tensors(const ForeignWeights& weights, const std::vector<TensorName>& names,
                             ModelClass model_class, bool tied);

}  // namespace tessera
