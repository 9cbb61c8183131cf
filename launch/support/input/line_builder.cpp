#include "launch/support/input/line_builder.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/support/files/piece_reader.h"

namespace tessera {

LineBuilder::LineBuilder(std::string path, std::deque<TextLines>& parts) : parts_(parts) {
  lines_.path = std::move(path);
}

void LineBuilder::add(std::string_view text, int64_t position) {
  const size_t end = text.rfind('\n');
  if (end != std::string_view::npos) whole_ = lines_.text.size() + end + 1;
  lines_.text += text;
  if (lines_.text.size() < kPieceBytes) return;
  emit_complete_lines();
  check_length(position);
}

void LineBuilder::emit_complete_lines() {
  if (whole_ > 0) emit(whole_);
}

void LineBuilder::check_length(int64_t position) const {
  constexpr size_t kAlways = size_t{64} << 20;
  constexpr size_t kMostTimes = 32;  // text usually compresses three- to tenfold
  const size_t most = std::max(kAlways, kMostTimes * static_cast<size_t>(position));
  require(lines_.text.size() <= most,
          "{}:{}: the line has more than {} bytes, but the {} bytes read from the file so far "
          "cannot contain that much text",
          lines_.path, lines_.first_line, most, position);
}

void LineBuilder::emit(size_t size) {
  std::string rest = lines_.text.substr(size);
  lines_.text.resize(size);
  const auto count = std::count(lines_.text.begin(), lines_.text.end(), '\n');
  TextLines next{lines_.path, lines_.first_line + count, std::move(rest)};
  parts_.push_back(std::exchange(lines_, std::move(next)));
  whole_ = 0;
}

void LineBuilder::end_file() {
  if (!lines_.text.empty()) emit(lines_.text.size());
}

}  // namespace tessera
