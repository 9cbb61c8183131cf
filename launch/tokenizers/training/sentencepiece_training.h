#pragma once

#include <cstdint>
#include <string>

#include "launch/support/input/input_files.h"

namespace tessera {

struct SentencePieceTrainingOptions {
  int64_t vocab_size = 8000;
  bool bpe = false;  ///< instead of a unigram language model
  /// How much of the text's characters have pieces, 0.98 to 1; the rest is unknown.
  double character_coverage = 0.9995;
};

/// The bytes of a .model that SentencePiece's trainer makes of a text: <unk>, <s>,
/// </s> and <pad> are 0 to 3, then [CLS], [SEP] and [MASK], which are control pieces: in a corpus
/// they are text. Each line is a sentence; one of more than 4 kB is several. Text is normalized as
/// SentencePiece does it by default (NFKC, with any white space a space). The same text gives the
/// same model. All of the text is in memory.
///
/// Throws as for_each_text(), if the text has no words, or if it has too few or too
/// many different characters for the vocabulary.
std::string train_sentencepiece(const InputText& text, const SentencePieceTrainingOptions& options);

}  // namespace tessera
