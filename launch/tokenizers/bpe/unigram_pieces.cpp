#include "launch/tokenizers/bpe/unigram_pieces.h"

#include <algorithm>

#include "core/checked.h"
#include "launch/tokenizers/text/bert_text.h"

namespace tessera {

UnigramPieces::UnigramPieces(std::vector<Piece> pieces, int32_t unknown, double unknown_score)
    : pieces_(std::move(pieces)), nodes_(1), unknown_(unknown), unknown_score_(unknown_score) {
  std::ranges::sort(pieces_, {}, &Piece::text);
  struct Range {
    size_t begin, end, depth;  ///< pieces that share their first `depth` bytes
  };
  std::vector<Range> ranges{{0, pieces_.size(), 0}};
  for (size_t i = 0; i < ranges.size(); ++i) {  // breadth first
    auto [begin, end, depth] = ranges[i];
    if (begin < end && pieces_[begin].text.size() == depth) {
      nodes_[i].piece = narrow<int32_t>(begin++);
    }
    nodes_[i].first_child = narrow<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = pieces_[begin].text[depth];
      size_t next = begin;
      while (next < end && pieces_[next].text[depth] == byte) ++next;
      nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[i].num_children;
      begin = next;
    }
  }
}

template <typename Body>
void UnigramPieces::for_each_prefix(std::string_view text, Body&& body) const {
  const Node* node = nodes_.data();
  for (const char c : text) {
    const Node* first = nodes_.data() + node->first_child;
    const Node* last = first + node->num_children;
    node = std::ranges::lower_bound(first, last, static_cast<uint8_t>(c), {}, &Node::byte);
    if (node == last || node->byte != static_cast<uint8_t>(c)) return;
    if (node->piece != kNoPiece) body(static_cast<size_t>(node->piece));
  }
}

void UnigramPieces::split(std::string_view word, const std::function<void(int32_t)>& on_piece,
                          const std::function<void(std::string_view)>& on_unknown) const {
  struct Best {
    double score = 0;
    size_t begin = std::string_view::npos;  ///< of the last piece
    int32_t id = 0;
  };
  std::vector<Best> best(word.size() + 1);  // by the end of the last piece
  for (size_t begin = 0; begin < word.size();) {
    const std::string_view rest = word.substr(begin);
    const size_t character = first_character_end(rest);
    bool is_piece = false;  // the first character
    const auto reach = [&](size_t size, int32_t id, double score) {
      Best& end = best[begin + size];
      const double sum = score + best[begin].score;
      if (end.begin == std::string_view::npos || sum > end.score) end = {sum, begin, id};
    };
    for_each_prefix(rest, [&](size_t index) {
      const Piece& piece = pieces_[index];
      reach(piece.text.size(), piece.id, piece.score);
      is_piece |= piece.text.size() == character;
    });
    if (!is_piece) reach(character, unknown_, unknown_score_);
    begin += character;
  }
  std::vector<size_t> ends;
  for (size_t end = word.size(); end > 0; end = best[end].begin) ends.push_back(end);
  size_t unknown_begin = 0;
  size_t begin = 0;
  const auto end_unknown = [&] {
    if (unknown_begin == begin) return;
    const std::string_view text = word.substr(unknown_begin, begin - unknown_begin);
    int32_t piece = kNoPiece;
    for_each_prefix(text, [&](size_t index) {
      if (pieces_[index].text.size() == text.size()) piece = pieces_[index].id;
    });
    if (piece == kNoPiece) return on_unknown(text);
    on_piece(piece);  // the unknown piece itself, or one with less than the score of its characters
  };
  for (size_t i = ends.size(); i-- > 0;) {
    const size_t end = ends[i];
    if (best[end].id != unknown_) {
      end_unknown();
      on_piece(best[end].id);
      unknown_begin = end;
    }
    begin = end;
  }
  end_unknown();
}

}  // namespace tessera
