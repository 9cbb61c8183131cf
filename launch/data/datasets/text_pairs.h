#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/row_reader.h"
#include "launch/data/datasets/text_samples.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The tokens around the texts of an encoder–decoder, as in T5: `end` ends a source and a target,
/// `start` is the decoder's first input.
struct SequenceEnds {
  int32_t start;
  int32_t end;
};

/// `end` is the end-of-document token or, without one, [SEP]; `start` is the padding token or,
/// without one, `end`. Throws if the tokenizer has no `end`.
SequenceEnds sequence_ends(const Tokenizer& tokenizer);
/// The same; nullopt if the tokenizer has no `end`.
std::optional<SequenceEnds> find_sequence_ends(const Tokenizer& tokenizer);

/// Builds samples of an encoder–decoder: the encoder reads the tokens of the source and `end`; the
/// decoder reads `start` and the tokens of the target, whose targets are these tokens and `end`.
class PairEncoder {
 public:
  /// `tokenizer` must outlive this. With `truncate`, texts that are too long are truncated at their
  /// end; otherwise they are errors. Lengths count the tokens above. Throws if a length is less
  /// than 2, and as sequence_ends() does.
  PairEncoder(const Tokenizer& tokenizer, int64_t source_length, int64_t seq_length, bool truncate);

  int64_t seq_length() const { return seq_length_; }
  SequenceEnds ends() const { return ends_; }

  /// Overwrites `out` with a document. Returns whether a text was truncated. Throws a message that
  /// starts with `where` if a text has no tokens, is too long or cannot be encoded.
  bool encode(std::string_view source, std::string_view target, std::string_view where,
              Sample& out) const;

  /// Sets only the parts of the source.
  bool encode_source(std::string_view source, std::string_view where, Sample& out) const;
  /// Likewise for the tokens of a source, without its end.
  bool add_source(std::vector<int32_t> tokens, std::string_view where, Sample& out) const;

 private:
  const Tokenizer& tokenizer_;
  int64_t source_length_, seq_length_;
  bool truncate_;
  SequenceEnds ends_;
};

/// Reads a file of pairs: a text and what a model writes for it, such as its translation, in the
/// columns `source` and `target` (row_reader.h). Throws as RowReader and PairEncoder::encode do,
/// and if there is no pair.
std::shared_ptr<const TextSamples> read_pairs(const std::string& path, const PairEncoder& encoder,
                                              const RowOptions& options = {});

}  // namespace tessera
