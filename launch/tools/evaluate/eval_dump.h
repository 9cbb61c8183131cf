#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/metrics/evaluation.h"
#include "models/token_batch.h"

namespace tessera {

/// Collects the inputs of an evaluation, so that another program can repeat it: documents one after
/// the other, without padding. It is written as a safetensors file, int32 unless noted:
///
///     tokens, targets, token_types  (N)  targets are −1 where nothing is predicted
///     document_lengths              (S)  together N
///     labels                        (S)  −1 where a document has none
///     label_values               (S, K)  float32: of a head that predicts numbers
///     source_tokens                (Ns)  of an encoder–decoder
///     source_lengths                (S)  together Ns
///     losses                        (2)  float64: the mean of tokens' losses, and of labels'
class EvalDump {
 public:
  void add(const TokenBatch& batch);

  /// Throws if the file exists or cannot be written.
  void write(const std::string& path, const Losses& losses);

 private:
  std::vector<int32_t> tokens_, targets_, token_types_, document_lengths_, labels_;
  std::vector<int32_t> source_tokens_, source_lengths_;
  std::vector<float> label_values_;
};

}  // namespace tessera
