#include "launch/data/prepare/token_part_writer.h"

#include <algorithm>
#include <utility>

namespace tessera {

void TokenPartWriter::add(const TokenPart& part) {
  const size_t values = part.signatures.size() / std::max<size_t>(part.marks.size(), 1);
  size_t begin = 0;
  for (size_t i = 0; i < part.marks.size(); ++i) {
    const Mark& mark = part.marks[i];
    append(std::span(part.tokens).subspan(begin, mark.at - begin));
    finder_.add(part.pieces[i].hash, std::span(part.signatures).subspan(i * values, values));
    document_counts_ += part.pieces[i].counts;
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
  const TextCounts counts = std::exchange(document_counts_, {});
  if (std::exchange(document_empty_, true)) {
    finder_.skip_document();
    ++empty_documents_;
    counts_ += counts;
  } else if (keeps_document()) {
    if (options_.end) writer_.append({&*options_.end, 1});
    writer_.end_document();
    counts_ += counts;
  } else {
    writer_.discard_document();
  }
}

bool TokenPartWriter::keeps_document() {
  const Repeats repeats = finder_.end_document();
  if (repeats == Repeats::text) ++duplicates_;
  if (repeats == Repeats::nearly_text) ++near_duplicates_;
  return repeats == Repeats::nothing || !options_.drop_duplicates;
}

}  // namespace tessera
