#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/data/datasets/text_encoders.h"

namespace tessera {

/// Columns of a file of tuples, by its first row; nullopt if it names no anchor, so that it is
/// a file of something else, or cannot be read, which its reader reports.
struct TupleColumns {
  bool negative = false;
};
std::optional<TupleColumns> tuple_columns(const std::string& path, const ColumnNames& columns = {});

/// How a loss uses tuples (ModelConfig).
struct TupleUse {
  bool hard_negatives = false;
  bool symmetric_loss = false;
};

/// Reads a file of texts that belong together (row_reader.h), named as in sentence-transformers:
/// `anchor`, such as a question, `positive`, such as its answer, and optionally `negative`, which
/// is no answer. Each text of a tuple is a document of its sample. Those that the loss asks for
/// have the label 0, so that they are counted: the anchor and, if it is symmetric, the positive.
/// Throws as RowReader and ClassificationEncoder::encode do, if there is no tuple, and unless the
/// file has negatives exactly if use.hard_negatives.
std::shared_ptr<const TextSamples> read_tuples(const std::string& path, TupleUse use,
                                               const ClassificationEncoder& encoder,
                                               const RowOptions& options = {});

}  // namespace tessera
