#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// Unit of text that is one document.
enum class Documents : uint8_t {
  file,       ///< a whole file
  paragraph,  ///< lines up to a blank line; blank lines belong to no document
  line,       ///< each line
};

/// Unit of text that is one sequence of a document.
enum class Sentences : uint8_t {
  none,  ///< the whole document
  line,  ///< each line
};

/// Receives a document's text in pieces. Sequences and documents may be empty.
class TextSink {
 public:
  virtual ~TextSink() = default;

  virtual void add(std::string_view text) = 0;
  virtual void end_sequence() = 0;
  /// Also ends the document's last sequence.
  virtual void end_document() = 0;
};

/// Splits a file's text, which arrives in pieces of any size, into documents and sequences without
/// buffering it. If lines matter, line ends ("\n" or "\r\n") belong to no line; lines of one
/// sequence are joined by "\n".
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
  std::string indent_;            ///< leading blanks of a line that has nothing else so far
  bool carriage_return_ = false;  ///< the line's last character, if it may be part of a line end
  bool line_has_text_ = false;
  bool document_open_ = false;  ///< the document has at least one line
};

}  // namespace tessera
