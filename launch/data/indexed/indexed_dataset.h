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

/// Reads a dataset in Megatron-LM's format, PREFIX.bin and PREFIX.idx (indexed_format.h), without
/// loading it: both files are mapped. Opening checks the whole index, in time linear in the number
/// of sequences and documents, so that no later read can leave the files; it does not touch
/// PREFIX.bin. Tokens are checked against the vocabulary as they are read. Any number of threads
/// may read at the same time.
class IndexedDataset {
 public:
  /// As a vocabulary size: any token that an int32 can hold.
  static constexpr int64_t kAnyVocabulary = int64_t{std::numeric_limits<int32_t>::max()} + 1;

  /// Throws, naming the file, the field, what was found and what is allowed, if the files are not a
  /// dataset in this format or do not belong together.
  explicit IndexedDataset(const std::string& prefix, int64_t vocab_size = kAnyVocabulary);

  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  TokenType token_type() const { return type_; }
  const std::string& prefix() const { return prefix_; }

  /// "3 documents, 40 tokens, index xxh3-64:..., tokens xxh3-64:...", with sampled checksums of
  /// both files: what tells it from another dataset under the same name.
  std::string identity() const;

  /// Tokens in a sequence.
  int64_t sequence_length(int64_t sequence) const;

  /// The place of a sequence's first token in the concatenation of all sequences.
  int64_t sequence_start(int64_t sequence) const;

  /// The sequences of a document.
  Range document_sequences(int64_t document) const;

  /// The places of a document's tokens in the concatenation of all sequences.
  Range document_tokens(int64_t document) const;

  /// The document that has the token at `position` of the concatenation of all sequences. In time
  /// logarithmic in the number of documents.
  int64_t document_at(int64_t position) const;

  /// out = tokens [offset, offset + out.size()) of a sequence. Throws if that is not within the
  /// sequence or if a token is not in [0, vocab_size).
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const;

  /// out = tokens [begin, begin + out.size()) of the concatenation of all sequences, in the order
  /// of the index. Throws if that is not within [0, num_tokens) or if a token is not in
  /// [0, vocab_size).
  void read_tokens(int64_t begin, std::span<int32_t> out) const;

  /// Lets the system fetch the pages of the tokens [begin, begin + count), which read_tokens() will
  /// be asked for soon, without waiting for them. A hint: what is not within the dataset is passed
  /// over.
  void will_read_tokens(int64_t begin, int64_t count) const;

 private:
  void check_header();
  void check_sequences();
  void check_documents() const;
  void require_sequence(int64_t sequence) const;

  // Fields of the index, without checks.
  int64_t length(int64_t sequence) const;
  int64_t pointer(int64_t sequence) const;
  int64_t document_index(int64_t entry) const;

  /// The place of a document's first token, or of what would follow it; document num_documents_ is
  /// allowed.
  int64_t document_start(int64_t document) const;

  /// Calls `use(byte, position, count)` for the stretches of the .bin file that hold `count` tokens
  /// from `begin` of the concatenation on, which are within the dataset.
  template <typename Use>
  void for_each_stretch(int64_t begin, int64_t count, Use&& use) const;

  /// out = the tokens at `byte` of the .bin file; `position`, for messages, is that of the first.
  void copy_tokens(size_t byte, int64_t position, std::span<int32_t> out) const;

  std::string prefix_;
  int64_t vocab_size_;
  MappedFile index_;
  MappedFile bin_;
  TokenType type_ = TokenType::i32;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  /// sequence_start of every sequence, and at last num_tokens. Empty where the sequences lie in
  /// PREFIX.bin one after the other, as Megatron writes them: there a pointer says it.
  std::vector<int64_t> starts_;
};

}  // namespace tessera
