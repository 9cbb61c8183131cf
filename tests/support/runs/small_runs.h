#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "tests/support/test_folder.h"

namespace tessera::test {

/// The vocabulary size of small runs, which no number of ranks divides.
inline constexpr int32_t kSmallVocabulary = 53;

/// The configurations of small runs. Together they cover all features of models and data.
enum class SmallKind {
  gpt,
  gpt_documents,  ///< separate documents, rotary positions, a window, no loss across documents
  gpt_packed,     ///< packed whole documents, ALiBi, unequal heads, biases only in attention, with
                  ///< dropout
  gpt_blend,    ///< two datasets, a learned bias of distances that unscaled scores are added to, a
                ///< norm of the embeddings, with dropout
  prefix_lm,    ///< packed documents whose first tokens see each other, layers with a window and
                ///< global tokens, ALiBi, with dropout
  planes,       ///< packed documents with a mask of each head from a file, unequal heads, ALiBi,
                ///< with dropout
  prompts,      ///< prompts and completions of ids, some truncated, rotary positions, a window,
                ///< unequal heads, with dropout
  qwen3,        ///< RMSNorm, SwiGLU, rotary with YaRN, grouped queries with biases, QK norm, an
                ///< untied head; tensor ranks have unequal numbers of heads, and of MLP columns
  muon,         ///< the same in µP, trained by Muon
  adapters,     ///< qwen3 with frozen weights and low-rank adapters of odd rank, with dropout
  bert_pairs,   ///< padded sentence pairs, with the next-sentence head
  bert_packed,  ///< whole-word masking, packed, with dropout
  modernbert,   ///< pre-norm, GeGLU, layers with and without a window, whose rotary bases differ;
                ///< unequal heads, spans, no biases and no token types
  longformer,  ///< a BERT of packed documents that hides masked tokens, whose layers have a dilated
               ///< window and global tokens or neither, a learned bias of distances, in µP
  added_planes,  ///< a BERT of packed documents with a mask from a file that is added to the scores
                 ///< of all heads, some layers with a window
  bert_blend,    ///< two datasets, masked, a learned bias of distances, unequal heads
  classifier,    ///< pairs of texts, with dropout
  multi_label,   ///< several labels of a text, in a RoBERTa
  words,         ///< labels of words, in a ModernBERT, with dropout
  embeddings,    ///< means of texts with hard negatives, both ways, with dropout
  embeddings_cls,   ///< of [CLS], in a ModernBERT
  mean_classifier,  ///< of the mean, in a ModernBERT
  translation,  ///< an encoder-decoder on pairs of texts; a shorter decoder, unequal heads, with
                ///< dropout
  span_corruption,  ///< an encoder-decoder with rotary positions, grouped queries and a gated MLP,
                    ///< in µP
  t5,               ///< span corruption, a T5 with unequal heads and MLP columns, with dropout
  images,           ///< a ViT with a class token and unequal heads, with dropout, on an IDX file
  mean_images,      ///< a ViT that takes the mean, on CIFAR-10's format, augmented, in µP
  frozen,  ///< a padded BERT with frozen weights and biases, and learning rates that differ
};

inline constexpr SmallKind kSmallKinds[] = {SmallKind::gpt,
                                            SmallKind::gpt_documents,
                                            SmallKind::gpt_packed,
                                            SmallKind::gpt_blend,
                                            SmallKind::prefix_lm,
                                            SmallKind::planes,
                                            SmallKind::prompts,
                                            SmallKind::qwen3,
                                            SmallKind::muon,
                                            SmallKind::adapters,
                                            SmallKind::bert_pairs,
                                            SmallKind::bert_packed,
                                            SmallKind::modernbert,
                                            SmallKind::longformer,
                                            SmallKind::added_planes,
                                            SmallKind::bert_blend,
                                            SmallKind::classifier,
                                            SmallKind::multi_label,
                                            SmallKind::words,
                                            SmallKind::embeddings,
                                            SmallKind::embeddings_cls,
                                            SmallKind::mean_classifier,
                                            SmallKind::translation,
                                            SmallKind::span_corruption,
                                            SmallKind::t5,
                                            SmallKind::images,
                                            SmallKind::mean_images,
                                            SmallKind::frozen};
/// All but `gpt`, which has tests of its own.
inline constexpr auto kOtherSmallKinds = std::span(kSmallKinds).subspan(1);

std::string to_string(SmallKind kind);

/// Writes a vocabulary of BERT's special tokens and words, of which every third continues the
/// previous one.
void write_vocabulary(const std::string& path, int32_t tokens);

/// Writes the data of small runs: a dataset of `tokens` tokens in documents of sentences, one of
/// half as many, labeled pairs of texts, and their vocabulary. The data has patterns that a model
/// can learn.
void write_small_data(const TestFolder& folder, int64_t tokens = 4000);

/// A run in `folder`/`run` on the data of write_small_data(). It splits over up to 4 tensor ranks,
/// and its batch over up to 4 data ranks with several micro-batches.
RunConfig small_run(const TestFolder& folder, const std::string& run,
                    SmallKind kind = SmallKind::gpt);

/// GPT-2 124M.
ModelConfig gpt2_model();

/// Writes a dataset of these documents, with one sentence each.
void write_documents(const std::string& prefix, const std::vector<std::vector<int32_t>>& documents);

}  // namespace tessera::test
