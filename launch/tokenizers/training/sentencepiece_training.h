#pragma once

#include <cstdint>
#include <string>

#include "launch/support/input/input_files.h"

namespace tessera {

struct SentencePieceTrainingOptions {
  int64_t vocab_size = 8000;
  bool bpe = false;  ///< instead of a unigram language model
  /// The fraction of the text's characters that get pieces, 0.98 to 1; the rest is unknown.
  double character_coverage = 0.9995;
};

/// Trains a SentencePiece model and returns the bytes of its .model. <unk>, <s>, </s> and <pad> are
/// 0 to 3, followed by [CLS], [SEP] and [MASK]. These are control pieces, so in a corpus they are
/// ordinary text. Each line is a sentence; lines of more than 4 kB are split. Text is normalized by
/// SentencePiece's default (NFKC, any white space becomes a space). Deterministic. Keeps the whole
/// text in memory.
///
/// Throws as for_each_text() does, and if the text has no words, or too few or too many distinct
/// characters for the vocabulary.
std::string train_sentencepiece(const InputText& text, const SentencePieceTrainingOptions& options);

}  // namespace tessera
