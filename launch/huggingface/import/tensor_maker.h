#pragma once

#include <map>
#include <span>
#include <string>

#include "core/memory.h"
#include "launch/huggingface/import/foreign_weights.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// Converts Hugging Face's tensors to Tessera's, one at a time.
class TensorMaker {
 public:
  /// `stored` maps names in TensorName::theirs to names in the files. Both must outlive this.
  TensorMaker(const ForeignWeights& weights, const std::map<std::string, std::string>& stored)
      : weights_(weights), stored_(stored) {}

  /// Our tensor, fp32 in host memory, which is valid until the next call. Throws like
  /// ForeignWeights::read().
  Tensor make(const TensorName& name);

 private:
  void read_transposed(const std::string& stored, const Shape& shape, std::span<float> out) const;
  /// Reads the rows from `first` on.
  void read_rows(const std::string& stored, const Shape& shape, int64_t first,
                 std::span<float> out) const;
  /// Writes each `count` elements of the stored tensor to the start of a group of `out`.
  void read_groups(const std::string& stored, const Shape& shape, size_t count,
                   std::span<float> out, size_t group) const;

  const ForeignWeights& weights_;
  const std::map<std::string, std::string>& stored_;
  OwnedTensor made_;
};

}  // namespace tessera
