#pragma once

#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "tests/support/test_folder.h"

namespace tessera::test {

/// Tokens of the vocabulary of small runs, which no number of ranks divides.
inline constexpr int32_t kSmallVocabulary = 53;

/// What small runs train: between them, all that a model and its data can be.
enum class SmallKind {
  gpt,
  gpt_documents,  ///< documents apart, rotary positions, a window, no loss across documents
  gpt_packed,     ///< whole documents in rows, with dropout
  gpt_blend,      ///< of two datasets, with dropout
  bert_pairs,     ///< padded pairs of sentences, with the next-sentence head
  bert_packed,    ///< whole words, packed, with dropout
  bert_options,   ///< pre-norm, rotary positions, a window, spans, no biases and no token types
  bert_blend,     ///< of two datasets, masked
  classifier,     ///< of pairs of texts, with dropout
};

inline constexpr SmallKind kSmallKinds[] = {
    SmallKind::gpt,          SmallKind::gpt_documents, SmallKind::gpt_packed,
    SmallKind::gpt_blend,    SmallKind::bert_pairs,    SmallKind::bert_packed,
    SmallKind::bert_options, SmallKind::bert_blend,    SmallKind::classifier};

std::string to_string(SmallKind kind);

/// Writes a vocabulary of BERT's special tokens and words, of which every third goes on with the
/// one before.
void write_vocabulary(const std::string& path, int32_t tokens);

/// Writes what small runs learn from: a dataset of so many tokens in documents of sentences, one of
/// half as many, labelled pairs of texts, and the vocabulary of all. There is some order in them,
/// so that a model learns.
void write_small_data(const TestFolder& folder, int64_t tokens = 4000);

/// A run in `folder`/`run` on data that write_small_data() left in `folder`, with a model whose
/// heads, width and vocabulary split over up to 4 tensor ranks, and a batch that splits over up to
/// 4 data ranks in micro-batches.
RunConfig small_run(const TestFolder& folder, const std::string& run,
                    SmallKind kind = SmallKind::gpt);

/// A dataset of these documents, each one sentence.
void write_documents(const std::string& prefix, const std::vector<std::vector<int32_t>>& documents);

}  // namespace tessera::test
