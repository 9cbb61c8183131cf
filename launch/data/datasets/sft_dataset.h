#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/data/sample.h"

namespace tessera {

struct SftOptions {
  int64_t seq_length = 0;        ///< of a row, in inputs
  bool truncate = false;         ///< cut examples that are too long; otherwise they are errors
  bool loss_on_prompts = false;  ///< learn all tokens, and not only those of replies
  int64_t prefix = 0;            ///< the first tokens, which see each other and are not predicted
};

/// The tokens of a file for supervised fine-tuning (sft_lines.h), in memory. An example of n tokens
/// has n − 1 inputs, because nothing follows its last token, the end of the last reply.
class SftExamples {
 public:
  /// Encodes each line with `chat`; those with tools, which python3 writes many at a time, may
  /// follow later ones. Examples of more than seq_length + 1 tokens are cut at their end or left
  /// out, if that leaves nothing to learn. Throws as for_each_sft_line, render_conversations and
  /// ChatTemplate::encode do, if an example is too long, and if there is no example.
  SftExamples(const std::string& path, const ChatTemplate& chat, const SftOptions& options,
              const RowOptions& rows = {});

  int64_t size() const { return std::ssize(begins_) - 1; }
  const std::string& path() const { return path_; }
  int64_t seq_length() const { return options_.seq_length; }
  int64_t num_tokens() const { return std::ssize(tokens_); }
  int64_t num_targets() const { return num_targets_; }
  int64_t num_truncated() const { return num_truncated_; }
  /// Of which nothing to learn was left.
  int64_t num_left_out() const { return num_left_out_; }
  /// The first message with the name of a special token of the template, and that name; empty if
  /// there is none.
  const std::string& first_token_name() const { return first_token_name_; }

  /// The number of inputs of example `i`.
  int32_t length(int64_t i) const;

  /// The line of example `i` in the file, counted from 0, without a header.
  int64_t line(int64_t i) const { return lines_[static_cast<size_t>(i)]; }

  /// Appends example `i` to a sample as a document. The target of an input is the next token if the
  /// model learns that one.
  void append(int64_t i, Sample& out) const;

 private:
  void add(const ChatTokens& example, const std::string& where, int64_t line);
  void note_token_names(std::span<const Message> messages, const ChatTemplate& chat,
                        const std::string& where);

  std::string path_;
  SftOptions options_;
  std::vector<int32_t> tokens_;     ///< of all examples
  std::vector<bool> is_target_;     ///< of all tokens
  std::vector<int64_t> begins_{0};  ///< start of each example in tokens_, then the total size
  std::vector<int64_t> lines_;
  int64_t num_targets_ = 0;
  int64_t num_truncated_ = 0;
  int64_t num_left_out_ = 0;
  std::string first_token_name_;
};

/// Rows of whole examples, as many as fit, which do not see each other and have positions from 0,
/// as in GptPackedDataset. Rows are the same in every epoch.
class SftDataset final : public Dataset {
 public:
  /// Packs the examples at `places` of a fixed random order, as ClassificationDataset does. Throws
  /// if `places` is empty or not within the examples.
  SftDataset(std::shared_ptr<const SftExamples> examples, Range places);

  int64_t num_samples() const override { return rows_.num_rows(); }
  int64_t seq_length() const override { return examples_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t example_at(int64_t piece) const;

  std::shared_ptr<const SftExamples> examples_;
  Range places_;
  PackedRows rows_;
};

}  // namespace tessera
