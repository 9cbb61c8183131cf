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

namespace tessera {

/// Text of whole and cut sequences, in parts of a piece or two. Where they are cut does not depend
/// on the pieces in which the text comes.
class PartBuilder final : public TextSink {
 public:
  PartBuilder(const Tokenizer& tokenizer, std::deque<TextPart>& parts)
      : tokenizer_(tokenizer), parts_(parts) {}

  void add(std::string_view text) override;
  void end_sequence() override { mark(Mark::Ends::sequence); }
  void end_document() override { mark(Mark::Ends::document); }
  /// Ends the last part.
  void finish();

 private:
  void mark(Mark::Ends ends);
  void cut_sequence();

  const Tokenizer& tokenizer_;
  std::deque<TextPart>& parts_;
  TextPart part_;
  size_t begin_ = 0;  ///< of the text behind the last mark
};

/// Reads inputs one after the other, once, into parts to be tokenized. Holds some pieces of text,
/// or a line of JSON if that is longer.
class PartReader {
 public:
  PartReader(std::vector<InputFile> inputs, Documents documents, Sentences sentences,
             const Tokenizer& tokenizer, std::stop_token stop);

  /// The next part; nothing: there are no more. Throws, naming the file, if one can not be read,
  /// when the lines before that place were handed out, in which something may be wrong as well.
  std::optional<InputPart> next();

 private:
  void start_file();
  void read_piece();
  void end_file();

  std::vector<InputFile> inputs_;
  Documents documents_;
  Sentences sentences_;
  std::stop_token stop_;
  size_t next_input_ = 0;
  bool finished_ = false;
  std::exception_ptr error_;  ///< thrown when what was read before is handed out
  int64_t read_before_ = 0;   ///< bytes of the inputs that were read to their ends

  std::deque<TextPart> texts_;
  std::deque<JsonLines> lines_;
  PartBuilder builder_;

  // Of the file that is read.
  std::optional<PieceReader> file_;
  std::optional<DocumentSplitter> splitter_;
  std::optional<LineBuilder> line_builder_;
};

}  // namespace tessera
