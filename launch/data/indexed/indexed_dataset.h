#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/indexed/indexed_format.h"
#include "launch/support/files/mapped_file.h"

namespace tessera {

/// Reads a dataset in Megatron-LM's format, PREFIX.bin and PREFIX.idx (indexed_format.h). Maps both
/// files instead of loading them. Opening checks the whole index, in time linear in the number of
/// sequences and documents, so that later reads stay within the files; it does not read PREFIX.bin.
/// Tokens are checked against the vocabulary when they are read. Reading is thread-safe.
class IndexedDataset {
 public:
  /// A vocabulary size that allows any non-negative int32.
  static constexpr int64_t kAnyVocabulary = int64_t{std::numeric_limits<int32_t>::max()} + 1;

  /// Throws, naming the file, the field, what was found and what is allowed, if the files are
  /// invalid or do not belong together.
  explicit IndexedDataset(const std::string& prefix, int64_t vocab_size = kAnyVocabulary);

  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  TokenType token_type() const { return type_; }
  const std::string& prefix() const { return prefix_; }

  /// "3 documents, 40 tokens, index xxh3-64:..., tokens xxh3-64:...", with sampled checksums of
  /// both files. Distinguishes datasets that were stored under the same name.
  std::string identity() const;

  /// Throws, naming the pointer, unless the sequences are stored in their order without overlap, as
  /// Megatron-LM writes them. Reading does not need that.
  void require_file_order() const;

  /// The bytes of PREFIX.bin that belong to no sequence, if the sequences do not overlap.
  int64_t unused_bytes() const;

  /// Returns the number of tokens in a sequence.
  int64_t sequence_length(int64_t sequence) const;

  /// Returns the position of a sequence's first token in the concatenation of all sequences.
  int64_t sequence_start(int64_t sequence) const;

  /// Returns the sequences of a document.
  Range document_sequences(int64_t document) const;

  /// Returns the range of a document's tokens in the concatenation of all sequences.
  Range document_tokens(int64_t document) const;

  /// Returns the document of the token at `position` in the concatenation of all sequences, in time
  /// logarithmic in the number of documents.
  int64_t document_at(int64_t position) const;

  /// Reads tokens [offset, offset + out.size()) of a sequence. Throws if that is not within the
  /// sequence or if a token is not in [0, vocab_size).
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const;

  /// Reads tokens [begin, begin + out.size()) of the concatenation of all sequences, in index
  /// order. Throws if that is not within [0, num_tokens) or if a token is not in [0, vocab_size).
  void read_tokens(int64_t begin, std::span<int32_t> out) const;

  /// Hints that read_tokens() will soon read [begin, begin + count), so that the system prefetches
  /// those pages. Does not wait. Ignores tokens outside the dataset.
  void will_read_tokens(int64_t begin, int64_t count) const;

 private:
  void check_header();
  void check_sequences();
  void check_documents() const;
  void require_sequence(int64_t sequence) const;

  // Offsets of the fields of the index.
  size_t length_offset(int64_t sequence) const;
  size_t pointer_offset(int64_t sequence) const;
  size_t document_index_offset(int64_t entry) const;

  // Unchecked fields of the index.
  int64_t length(int64_t sequence) const;
  int64_t pointer(int64_t sequence) const;
  int64_t document_index(int64_t entry) const;

  /// Returns the position of a document's first token, or where it would be if the document is
  /// empty. Document num_documents_ is allowed.
  int64_t document_start(int64_t document) const;

  /// Calls `use(byte, position, count)` for the ranges of the .bin file that store `count` tokens
  /// from `begin` on in the concatenation, which must be within the dataset.
  template <typename Use>
  void for_each_stretch(int64_t begin, int64_t count, Use&& use) const;

  /// Reads the tokens at `byte` of the .bin file; `position` is that of the first, for messages.
  void copy_tokens(size_t byte, int64_t position, std::span<int32_t> out) const;

  std::string prefix_;
  int64_t vocab_size_;
  MappedFile index_;
  MappedFile bin_;
  TokenType type_ = TokenType::i32;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  /// sequence_start of every sequence, then num_tokens. Empty if PREFIX.bin stores the sequences
  /// contiguously, as Megatron writes them: the pointers are then sufficient.
  std::vector<int64_t> starts_;
};

}  // namespace tessera
