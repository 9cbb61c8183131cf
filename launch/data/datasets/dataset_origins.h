#pragma once

#include "core/range.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

/// The documents of a dataset that have these tokens, of which there is at least one, as the origin
/// of document number `document` of a sample.
inline TextOrigin origin_of(const IndexedDataset& dataset, Range tokens, int64_t document) {
  const Range documents = {dataset.document_at(tokens.begin),
                           dataset.document_at(tokens.end - 1) + 1};
  return {document, dataset.prefix(), "document", documents};
}

}  // namespace tessera
