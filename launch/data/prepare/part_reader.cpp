#include "launch/data/prepare/part_reader.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/support/input/check_text.h"

namespace tessera {

void PartBuilder::add(std::string_view text) {
  while (!text.empty()) {
    const size_t room = kPieceBytes - (part_.text.size() - begin_);
    const size_t count = std::min(room, text.size());
    part_.text += text.substr(0, count);
    text.remove_prefix(count);
    if (count == room) cut_sequence();
  }
}

void PartBuilder::cut_sequence() {
  const size_t cut = begin_ + cut_of(tokenizer_, std::string_view(part_.text).substr(begin_));
  std::string rest = part_.text.substr(cut);
  part_.text.resize(cut);
  part_.marks.push_back({cut, Mark::Ends::nothing});
  finish();
  part_.text = std::move(rest);
}

void PartBuilder::mark(Mark::Ends ends) {
  part_.marks.push_back({part_.text.size(), ends});
  begin_ = part_.text.size();
  // Counts marks as well, because sequences may be empty.
  if (begin_ + part_.marks.size() * sizeof(Mark) >= kPieceBytes) finish();
}

void PartBuilder::finish() {
  if (!part_.marks.empty()) parts_.push_back(std::exchange(part_, {}));
  begin_ = 0;
}

PartReader::PartReader(InputText input, Documents documents, Sentences sentences,
                       const Tokenizer& tokenizer, std::stop_token stop)
    : input_(std::move(input)),
      documents_(documents),
      sentences_(sentences),
      stop_(std::move(stop)),
      builder_(tokenizer, texts_) {}

std::optional<InputPart> PartReader::next() {
  while (texts_.empty() && lines_.empty()) {
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (finished_) {
      if (skipped_.malformed_rows == 0) return std::nullopt;
      texts_.emplace_back();  // without text, for the last skipped rows
      break;
    }
    try {
      if (table_) {
        read_rows();
      } else if (file_) {
        read_piece();
      } else {
        start_file();
      }
    } catch (...) {
      error_ = std::current_exception();
      if (line_builder_) line_builder_->emit_complete_lines();
    }
  }
  InputPart part = std::exchange(skipped_, {});
  part.position = read_before_ + position();
  // Never both: parts of one kind are handed out before a file of the other kind is read.
  if (!texts_.empty()) {
    part.content = std::move(texts_.front());
    texts_.pop_front();
  } else {
    part.content = std::move(lines_.front());
    lines_.pop_front();
  }
  return part;
}

int64_t PartReader::position() const {
  if (table_) return table_->position();
  return file_ ? file_->position() : 0;
}

void PartReader::start_file() {
  const bool all_read = next_input_ == input_.files.size();
  const auto has_lines = [](const InputFile& input) {
    return input.format == InputFormat::jsonl || input.format == InputFormat::ids;
  };
  if (all_read || has_lines(input_.files[next_input_])) builder_.finish();
  finished_ = all_read;
  if (all_read) return;
  const InputFile& input = input_.files[next_input_++];
  if (input.format == InputFormat::parquet) {
    table_.emplace(input.path, input_.field, input_.skip_malformed);
    return;
  }
  file_.emplace(input.path, stop_);
  if (has_lines(input)) {
    line_builder_.emplace(input.path, lines_);
  } else {
    splitter_.emplace(documents_, sentences_, builder_);
  }
}

void PartReader::read_piece() {
  const bool is_first = file_->position() == 0;
  const std::string_view piece = file_->next();
  if (is_first) check_text(input_.files[next_input_ - 1].path, piece);
  if (piece.empty()) {
    end_file();
  } else if (line_builder_) {
    line_builder_->add(piece, file_->position());
  } else {
    splitter_->add(piece);
  }
}

void PartReader::read_rows() {
  const int64_t skipped_before = table_->malformed_rows();
  const bool any = table_->read([&](std::string_view text) {
    DocumentSplitter splitter(Documents::file, sentences_, builder_);
    splitter.add(text);
    splitter.end_file();
  });
  if (skipped_.malformed_rows == 0) skipped_.first_malformed = table_->first_malformed();
  skipped_.malformed_rows += table_->malformed_rows() - skipped_before;
  if (!any) end_file();
}

void PartReader::end_file() {
  if (line_builder_) line_builder_->end_file();
  if (splitter_) splitter_->end_file();
  line_builder_.reset();
  splitter_.reset();
  read_before_ += position();
  file_.reset();
  table_.reset();
}

}  // namespace tessera
