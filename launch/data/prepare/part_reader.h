#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "launch/data/prepare/input_part.h"
#include "launch/support/files/piece_reader.h"
#include "launch/support/input/document_splitter.h"
#include "launch/support/input/input_files.h"
#include "launch/support/input/line_builder.h"
#include "launch/support/input/parquet_texts.h"

namespace tessera {

/// Builds parts of one or two pieces from whole and cut sequences. The cuts do not depend on the
/// pieces in which the text arrives.
class PartBuilder final : public TextSink {
 public:
  PartBuilder(const Tokenizer& tokenizer, std::deque<TextPart>& parts)
      : tokenizer_(tokenizer), parts_(parts) {}

  void add(std::string_view text) override;
  void end_sequence() override { mark(Mark::Ends::sequence); }
  void end_document() override { mark(Mark::Ends::document); }
  /// Emits the last part.
  void finish();

 private:
  void mark(Mark::Ends ends);
  void cut_sequence();

  const Tokenizer& tokenizer_;
  std::deque<TextPart>& parts_;
  TextPart part_;
  size_t begin_ = 0;  ///< start of the text after the last mark
};

/// Reads inputs once, in order, into parts to tokenize. Buffers a few pieces of text, or one line
/// of JSON or ids, or page of Parquet, if that is longer.
class PartReader {
 public:
  PartReader(InputText input, Documents documents, Sentences sentences, const Tokenizer& tokenizer,
             std::stop_token stop);

  /// Returns the next part, or nothing at the end. Throws, naming the file, if one cannot be read,
  /// but first returns the lines before the error, which may have errors of their own.
  std::optional<InputPart> next();

 private:
  void start_file();
  void read_piece();
  void read_rows();
  void end_file();
  int64_t position() const;

  InputText input_;
  Documents documents_;
  Sentences sentences_;
  std::stop_token stop_;
  size_t next_input_ = 0;
  bool finished_ = false;
  std::exception_ptr error_;  ///< thrown after everything read before it was returned
  int64_t read_before_ = 0;   ///< bytes of all inputs that were read completely
  InputPart skipped_;         ///< rows since the last part, which has no content

  std::deque<TextPart> texts_;
  std::deque<TextLines> lines_;
  PartBuilder builder_;

  // State of the current file.
  std::optional<PieceReader> file_;
  std::optional<DocumentSplitter> splitter_;
  std::optional<LineBuilder> line_builder_;
  std::optional<ParquetTexts> table_;
};

}  // namespace tessera
