#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"

namespace tessera {

/// How long documents or sequences are, in tokens. All are 0 if there are none.
struct LengthStatistics {
  int64_t count = 0;
  int64_t empty = 0;
  double mean = 0.0;
  // Nearest ranks: the p-th percentile is the least length that p% of all do not exceed.
  int64_t median = 0;
  int64_t percentile90 = 0;
  int64_t percentile99 = 0;
  int64_t longest = 0;

  bool operator==(const LengthStatistics&) const = default;
};

LengthStatistics length_statistics(std::vector<int64_t> lengths);

/// Takes time linear in the index, and 8 bytes of memory for each document.
LengthStatistics document_lengths(const IndexedDataset& dataset);
LengthStatistics sequence_lengths(const IndexedDataset& dataset);

/// Describes the tokens, documents and text of a dataset in a few lines, for the summary of
/// `prepare` and for `inspect`. Only the metadata know of text, of unknown tokens, and of documents
/// that were left out or repeat others.
std::string describe_statistics(const IndexedDataset& dataset,
                                const std::optional<DatasetMetadata>& metadata);

}  // namespace tessera
