#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// What one document is.
enum class Documents : uint8_t {
  file,       ///< a whole file
  paragraph,  ///< lines up to a blank one; blank lines belong to none
  line,       ///< each line
};

/// What one sequence of a document is.
enum class Sentences : uint8_t {
  none,  ///< the whole document
  line,  ///< each line
};

/// Receives a document's text piece by piece. A sequence or a document may have no text.
class TextSink {
 public:
  virtual ~TextSink() = default;

  virtual void add(std::string_view text) = 0;
  virtual void end_sequence() = 0;
  /// Ends its last sequence, too.
  virtual void end_document() = 0;
};

/// Finds the documents and sequences in a file's text, which comes in pieces of any size; holds
/// none of it. Where lines are told apart, what ends one ("\n" or "\r\n") belongs to no line; lines
/// of one sequence have "\n" between them.
class DocumentSplitter {
 public:
  DocumentSplitter(Documents documents, Sentences sentences, TextSink& sink)
      : documents_(documents), sentences_(sentences), sink_(sink) {}

  void add(std::string_view text);
  void end_file();

 private:
  bool by_line() const { return documents_ != Documents::file || sentences_ == Sentences::line; }
  void add_to_line(std::string_view text);
  void end_line();
  void end_document();

  Documents documents_;
  Sentences sentences_;
  TextSink& sink_;
  std::string indent_;            ///< blanks at the line's start, while it has nothing else
  bool carriage_return_ = false;  ///< the line's last character, if no line end follows
  bool line_has_text_ = false;
  bool document_open_ = false;  ///< a line of it was there
};

}  // namespace tessera
