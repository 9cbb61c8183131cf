#include "launch/data/part_reader.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

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
  // Sequences may have no text.
  if (begin_ + part_.marks.size() * sizeof(Mark) >= kPieceBytes) finish();
}

void PartBuilder::finish() {
  if (!part_.marks.empty()) parts_.push_back(std::exchange(part_, {}));
  begin_ = 0;
}

LineBuilder::LineBuilder(std::string path, std::deque<JsonLines>& parts) : parts_(parts) {
  lines_.path = std::move(path);
}

void LineBuilder::add(std::string_view text, int64_t position) {
  const size_t end = text.rfind('\n');
  if (end != std::string_view::npos) whole_ = lines_.text.size() + end + 1;
  lines_.text += text;
  if (lines_.text.size() < kPieceBytes) return;
  hand_out_whole();
  check_length(position);
}

void LineBuilder::hand_out_whole() {
  if (whole_ > 0) hand_out(whole_);
}

void LineBuilder::check_length(int64_t position) const {
  constexpr size_t kAlways = size_t{64} << 20;
  constexpr size_t kMostTimes = 32;  // text compresses three to ten times
  const size_t most = std::max(kAlways, kMostTimes * static_cast<size_t>(position));
  require(lines_.text.size() <= most,
          "{}:{}: the line has more than {} bytes, but the {} bytes of the file so far can not "
          "hold so much of any text",
          lines_.path, lines_.first_line, most, position);
}

void LineBuilder::hand_out(size_t size) {
  std::string rest = lines_.text.substr(size);
  lines_.text.resize(size);
  const auto count = std::count(lines_.text.begin(), lines_.text.end(), '\n');
  JsonLines next{lines_.path, lines_.first_line + count, std::move(rest)};
  parts_.push_back(std::exchange(lines_, std::move(next)));
  whole_ = 0;
}

void LineBuilder::end_file() {
  if (!lines_.text.empty()) hand_out(lines_.text.size());
}

PartReader::PartReader(std::vector<InputFile> inputs, Documents documents, Sentences sentences,
                       const Tokenizer& tokenizer, std::stop_token stop)
    : inputs_(std::move(inputs)),
      documents_(documents),
      sentences_(sentences),
      stop_(std::move(stop)),
      builder_(tokenizer, texts_) {}

std::optional<InputPart> PartReader::next() {
  while (texts_.empty() && lines_.empty()) {
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (finished_) return std::nullopt;
    try {
      if (file_) {
        read_piece();
      } else {
        start_file();
      }
    } catch (...) {
      error_ = std::current_exception();
      if (line_builder_) line_builder_->hand_out_whole();
    }
  }
  InputPart part;
  part.position = read_before_ + (file_ ? file_->position() : 0);
  // Never both: what there is of one kind is handed out before a file of the other is read.
  if (!texts_.empty()) {
    part.content = std::move(texts_.front());
    texts_.pop_front();
  } else {
    part.content = std::move(lines_.front());
    lines_.pop_front();
  }
  return part;
}

void PartReader::start_file() {
  const bool all_read = next_input_ == inputs_.size();
  if (all_read || inputs_[next_input_].format == InputFormat::jsonl) builder_.finish();
  finished_ = all_read;
  if (all_read) return;
  const InputFile& input = inputs_[next_input_++];
  file_.emplace(input.path, stop_);
  if (input.format == InputFormat::jsonl) {
    line_builder_.emplace(input.path, lines_);
  } else {
    splitter_.emplace(documents_, sentences_, builder_);
  }
}

void PartReader::read_piece() {
  const std::string_view piece = file_->next();
  if (piece.empty()) {
    end_file();
  } else if (line_builder_) {
    line_builder_->add(piece, file_->position());
  } else {
    splitter_->add(piece);
  }
}

void PartReader::end_file() {
  if (line_builder_) line_builder_->end_file();
  if (splitter_) splitter_->end_file();
  line_builder_.reset();
  splitter_.reset();
  read_before_ += file_->position();
  file_.reset();
}

}  // namespace tessera
