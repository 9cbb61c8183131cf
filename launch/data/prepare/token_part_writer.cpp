#include "launch/data/prepare/token_part_writer.h"

namespace tessera {

void TokenPartWriter::add(const TokenPart& part) {
  size_t begin = 0;
  for (const Mark& mark : part.marks) {
    append(std::span(part.tokens).subspan(begin, mark.at - begin));
    begin = mark.at;
    if (mark.ends == Mark::Ends::sequence) sequence_ended_ = true;
    if (mark.ends == Mark::Ends::document) end_document();
  }
}

void TokenPartWriter::append(std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  // Deferred, because the end-of-document token belongs to the last sequence.
  if (sequence_ended_ && !document_empty_) writer_.end_sequence();
  sequence_ended_ = false;
  document_empty_ = false;
  writer_.append(tokens);
}

void TokenPartWriter::end_document() {
  sequence_ended_ = false;
  if (document_empty_) {
    ++empty_documents_;
    return;
  }
  if (end_) writer_.append({&*end_, 1});
  writer_.end_document();
  document_empty_ = true;
}

}  // namespace tessera
