#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// A context as its tokens, and the white space at its end, which belongs to what continues it. A
/// context without text is the token that ends a document.
struct EncodedContext {
  std::string text, space;
  std::vector<int32_t> tokens;
};

/// The token that ends a document, from which a text begins. Throws, starting with `where`, if the
/// tokenizer has none.
int32_t first_token(const Tokenizer& tokenizer, const std::string& where);

/// Tokenizer::encode(), whose errors start with `where`.
std::vector<int32_t> encode_text(const Tokenizer& tokenizer, const std::string& text,
                                 const std::string& where);

/// Throws, starting with `where`, if the tokenizer cannot encode the context.
EncodedContext encode_context(const Tokenizer& tokenizer, const std::string& context,
                              const std::string& where);

/// The tokens of a context with its continuation, as lm-evaluation-harness has them: those of the
/// whole text. With n tokens of the context alone, the continuation has all but the first n, which
/// may differ from those of the context. Throws, starting with `where`, if none are left.
std::vector<int32_t> encode_continuation(const Tokenizer& tokenizer, const EncodedContext& context,
                                         std::string_view continuation, const std::string& where);

/// Continuations of contexts in a file, for a model that predicts the next token, in memory. A
/// document is a context with one continuation, and only the continuation's tokens have a target.
/// Rows are packed with whole documents, which do not see each other and have positions from 0. The
/// label of a document is the number of its continuation. Of more than seq_length + 1 tokens, the
/// last ones are used.
class ContinuationDataset : public Dataset {
 public:
  const std::string& path() const { return path_; }
  /// The file's size and a checksum of its content (see sampled_checksum()).
  const std::string& identity() const { return identity_; }

  int64_t num_continuations() const { return std::ssize(pieces_); }
  /// Continuations whose context was cut at its beginning.
  int64_t num_truncated() const { return num_truncated_; }
  /// The number of a continuation's own tokens.
  int64_t num_tokens(int64_t continuation) const;

  int64_t num_samples() const override { return rows_.num_rows(); }
  int64_t seq_length() const override { return seq_length_; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;

 protected:
  ContinuationDataset(std::string path, const ModelConfig& model);

  /// Appends a context with its continuation, which are the last `own` of the tokens. Throws,
  /// starting with `where`, if the continuation is longer than the model, begins before
  /// model.attention_prefix tokens, or if a token is not in its vocabulary.
  void add(const std::vector<int32_t>& tokens, int64_t own, const ModelConfig& model,
           const std::string& where);
  /// Packs the rows. To be called once, after the last add().
  void pack();

 private:
  struct Piece {
    int64_t begin;    ///< in tokens_
    int64_t context;  ///< tokens before its own, at least 1
  };

  /// The place of a context and its continuation, of which the last token is no input.
  Range tokens_of(int64_t continuation) const;

  std::string path_, identity_;
  int64_t seq_length_;
  std::vector<int32_t> tokens_;
  std::vector<Piece> pieces_;
  PackedRows rows_;
  int64_t num_truncated_ = 0;
};

/// "; the contexts of 3 were cut at their beginning to fit into model.seq_length, 1024", or "".
std::string truncation_note(const ContinuationDataset& dataset);

/// Throws, starting with `path`, unless the model predicts the next token. `what` it can do then.
void require_next_token(const std::string& path, const ModelConfig& model, std::string_view what);

}  // namespace tessera
