#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tessera {

/// The pieces of a unigram language model (Kudo 2018). Splits a word as the Python package
/// `tokenizers` does: into the pieces with the highest sum of scores, in fp64. Of equal sums, the
/// one whose last pieces are longer counts.
class UnigramPieces {
 public:
  struct Piece {
    std::string_view text;  ///< not empty, unique
    int32_t id = 0;
    double score = 0;
  };

  /// `unknown` is the token of characters that are no piece, each with the score `unknown_score`.
  UnigramPieces(std::vector<Piece> pieces, int32_t unknown, double unknown_score);

  /// Calls `on_piece` with the pieces of a word, valid UTF-8, and `on_unknown` with what is between
  /// them.
  void split(std::string_view word, const std::function<void(int32_t)>& on_piece,
             const std::function<void(std::string_view)>& on_unknown) const;

 private:
  static constexpr int32_t kNoPiece = -1;

  /// A node of the trie of all pieces. Its children are next to each other, in order of their
  /// bytes.
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t byte = 0;
    int32_t piece = kNoPiece;  ///< index of the one that ends here
  };

  /// Calls `body(index)` with each piece that `text` starts with, the shortest first.
  template <typename Body>
  void for_each_prefix(std::string_view text, Body&& body) const;

  std::vector<Piece> pieces_;
  std::vector<Node> nodes_;
  int32_t unknown_;
  double unknown_score_;
};

}  // namespace tessera
