#include "launch/support/input/document_splitter.h"

#include <algorithm>

namespace tessera {
namespace {

/// White space beyond this length counts as text, which bounds the buffer.
constexpr size_t kLongestIndent = size_t{1} << 16;

}  // namespace

void DocumentSplitter::add(std::string_view text) {
  if (!by_line()) {
    sink_.add(text);
    return;
  }
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    add_to_line(text.substr(0, end));
    if (end == text.size()) return;
    end_line();
    text.remove_prefix(end + 1);
  }
}

void DocumentSplitter::add_to_line(std::string_view text) {
  if (text.empty()) return;
  const bool ends_in_return = text.back() == '\r';
  if (ends_in_return) text.remove_suffix(1);
  if (carriage_return_) indent_ += '\r';
  carriage_return_ = ends_in_return;
  if (!line_has_text_) {
    const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
    indent_.append(text.substr(0, begin));
    text.remove_prefix(begin);
    if (text.empty() && indent_.size() < kLongestIndent) return;
    line_has_text_ = true;
    const bool goes_on = document_open_ && documents_ != Documents::line;
    document_open_ = true;
    if (goes_on && sentences_ == Sentences::line) sink_.end_sequence();
    if (goes_on && sentences_ == Sentences::none) sink_.add("\n");
  }
  if (!indent_.empty()) sink_.add(indent_);
  indent_.clear();
  sink_.add(text);
}

void DocumentSplitter::end_line() {
  const bool blank = !line_has_text_;
  indent_.clear();
  carriage_return_ = false;
  line_has_text_ = false;
  if (documents_ == Documents::line || (documents_ == Documents::paragraph && blank)) {
    end_document();
  }
}

void DocumentSplitter::end_document() {
  // Blank lines between paragraphs are not empty documents.
  if (documents_ != Documents::paragraph || document_open_) sink_.end_document();
  document_open_ = false;
}

void DocumentSplitter::end_file() {
  const bool in_line = line_has_text_ || !indent_.empty() || carriage_return_;
  if (by_line() && in_line) end_line();
  if (documents_ == Documents::file || document_open_) end_document();
}

}  // namespace tessera
