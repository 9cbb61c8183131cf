#include "launch/data/indexed/indexed_dataset.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {
namespace {

constexpr size_t kSequenceBytes = sizeof(int32_t) + sizeof(int64_t);  // in the index

template <typename T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
int64_t load_token(std::span<const std::byte> bytes, size_t index) {
  const T token = load<T>(bytes, index * sizeof(T));
  return static_cast<int64_t>(token);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
}

const std::string& checked_prefix(const std::string& prefix) {
  for (const char* ending : {".bin", ".idx"}) {
    if (prefix.ends_with(ending) && !std::filesystem::exists(prefix + ".idx")) {
      fail("{}: a dataset is named by the common prefix of its .bin and .idx files; leave out {}",
           prefix, ending);
    }
  }
  require(
      !std::filesystem::is_regular_file(prefix) || std::filesystem::exists(prefix + ".idx"),
      "{} is a file, but not a dataset: tessera prepare makes a dataset from text; a .csv, "
      ".tsv, .json or .jsonl file is read without it if it has what the model learns: prompts and "
      "completions "
      "or messages, sources and targets, labels (with model.head, or a BERT's checkpoint.from), "
      "or anchors and positives",
      prefix);
  require(std::filesystem::exists(prefix + ".idx") || std::filesystem::exists(prefix + ".bin"),
          "there is no dataset {0}: neither {0}.idx nor {0}.bin exists; tessera prepare makes one "
          "from text",
          prefix);
  return prefix;
}

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix, int64_t vocab_size)
    : prefix_(checked_prefix(prefix)),
      vocab_size_(vocab_size),
      index_(prefix + ".idx"),
      bin_(prefix + ".bin") {
  require(0 < vocab_size && vocab_size <= kAnyVocabulary,
          "{}: a vocabulary cannot have {} tokens: 1 to {} are allowed", prefix, vocab_size,
          kAnyVocabulary);
  check_header();
  check_sequences();
  check_documents();
}

std::string IndexedDataset::identity() const {
  return fmt::format("{} documents, {} tokens, index {}, tokens {}", num_documents_, num_tokens_,
                     sampled_checksum(index_), sampled_checksum(bin_));
}

void IndexedDataset::check_header() {
  const std::string& path = index_.path();
  const std::span<const std::byte> bytes = index_.bytes();
  require(bytes.size() >= kIndexHeaderBytes, "{}: has {} bytes, but the header of an index has {}",
          path, bytes.size(), kIndexHeaderBytes);
  require(
      std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) == 0,
      "{}: the magic at byte 0 is not \"MMIDIDX\": this is not the index of a Megatron-LM dataset",
      path);
  const auto version = load<uint64_t>(bytes, kIndexVersionOffset);
  require(version == kIndexVersion, "{}: version is {} (byte {}), but only version {} can be read",
          path, version, kIndexVersionOffset, kIndexVersion);
  type_ = token_type_from_code(load<uint8_t>(bytes, kIndexTypeOffset), path);

  // Check by division that the file has room for these counts before using them.
  const auto sequences = load<uint64_t>(bytes, kIndexSequencesOffset);
  const auto documents = load<uint64_t>(bytes, kIndexDocumentsOffset);
  const size_t room = bytes.size() - kIndexHeaderBytes;
  require(sequences <= room / kSequenceBytes,
          "{}: sequence count is {} (byte {}), but the file's {} bytes have room for at most {}",
          path, sequences, kIndexSequencesOffset, bytes.size(), room / kSequenceBytes);
  const size_t room_for_documents = room - sequences * kSequenceBytes;
  require(documents <= room_for_documents / sizeof(int64_t),
          "{}: document entries are {} (byte {}), but the file's {} bytes have room for at most {} "
          "after the {} sequences",
          path, documents, kIndexDocumentsOffset, bytes.size(),
          room_for_documents / sizeof(int64_t), sequences);
  require(documents >= 1,
          "{}: document entries are 0 (byte {}), but must be at least 1, even without documents",
          path, kIndexDocumentsOffset);
  const size_t rest = room_for_documents - documents * sizeof(int64_t);
  require(rest == 0 || rest != sequences,
          "{}: has a mode for each of its {} sequences: multimodal datasets cannot be read", path,
          sequences);
  require(rest == 0, "{}: has {} bytes, but {} sequences and {} document entries take {}", path,
          bytes.size(), sequences, documents, bytes.size() - rest);
  num_sequences_ = narrow<int64_t>(sequences);
  num_documents_ = narrow<int64_t>(documents) - 1;
}

void IndexedDataset::check_sequences() {
  const int64_t token_bytes = static_cast<int64_t>(size_of(type_));
  const int64_t bin_bytes = narrow<int64_t>(bin_.size());
  bool contiguous = true;
  for (int64_t i = 0; i < num_sequences_; ++i) {
    const int64_t tokens = length(i);
    const int64_t begin = pointer(i);
    if (tokens < 0) {
      fail("{}: sequence length {} is negative: {} (byte {})", index_.path(), i, tokens,
           length_offset(i));
    }
    if (begin < 0 || begin > bin_bytes || tokens > (bin_bytes - begin) / token_bytes) {
      fail(
          "{}: sequence pointer {} is {} (byte {}), but from there {} tokens of {} bytes are not "
          "within the {} bytes of {}",
          index_.path(), i, begin, pointer_offset(i), tokens, token_bytes, bin_bytes, bin_.path());
    }
    if (tokens > std::numeric_limits<int64_t>::max() / token_bytes - num_tokens_) {
      fail("{}: the sum of the sequence lengths overflows", index_.path());
    }
    contiguous = contiguous && begin == num_tokens_ * token_bytes;
    num_tokens_ += tokens;
  }
  if (contiguous) {
    require(num_tokens_ * token_bytes == bin_bytes,
            "{}: has {} bytes, but the {} tokens of {} bytes in {} take {}: the two files do not "
            "belong together",
            bin_.path(), bin_bytes, num_tokens_, token_bytes, index_.path(),
            num_tokens_ * token_bytes);
    return;
  }
  starts_.reserve(static_cast<size_t>(num_sequences_) + 1);
  starts_.push_back(0);
  for (int64_t i = 0; i < num_sequences_; ++i) starts_.push_back(starts_.back() + length(i));
}

void IndexedDataset::check_documents() const {
  require(document_index(0) == 0, "{}: document index 0 is {} (byte {}), but must be 0",
          index_.path(), document_index(0), document_index_offset(0));
  for (int64_t i = 1; i <= num_documents_; ++i) {
    if (document_index(i) < document_index(i - 1)) {
      fail("{}: document index {} is {} (byte {}), less than the {} before it", index_.path(), i,
           document_index(i), document_index_offset(i), document_index(i - 1));
    }
  }
  require(document_index(num_documents_) == num_sequences_,
          "{}: document index {}, the last, is {} (byte {}), but must be the sequence count {}",
          index_.path(), num_documents_, document_index(num_documents_),
          document_index_offset(num_documents_), num_sequences_);
}

void IndexedDataset::require_file_order() const {
  const int64_t token_bytes = static_cast<int64_t>(size_of(type_));
  int64_t end = 0;
  for (int64_t i = 0; i < num_sequences_; ++i) {
    if (pointer(i) < end) {
      fail("{}: sequence pointer {} is {} (byte {}), but the sequence before it ends at {}",
           index_.path(), i, pointer(i), pointer_offset(i), end);
    }
    end = pointer(i) + length(i) * token_bytes;
  }
}

int64_t IndexedDataset::unused_bytes() const {
  return narrow<int64_t>(bin_.size()) - num_tokens_ * static_cast<int64_t>(size_of(type_));
}

size_t IndexedDataset::length_offset(int64_t sequence) const {
  return kIndexHeaderBytes + sizeof(int32_t) * static_cast<size_t>(sequence);
}

size_t IndexedDataset::pointer_offset(int64_t sequence) const {
  return length_offset(num_sequences_) + sizeof(int64_t) * static_cast<size_t>(sequence);
}

size_t IndexedDataset::document_index_offset(int64_t entry) const {
  return pointer_offset(num_sequences_) + sizeof(int64_t) * static_cast<size_t>(entry);
}

int64_t IndexedDataset::length(int64_t sequence) const {
  return load<int32_t>(index_.bytes(), length_offset(sequence));
}

int64_t IndexedDataset::pointer(int64_t sequence) const {
  return load<int64_t>(index_.bytes(), pointer_offset(sequence));
}

int64_t IndexedDataset::document_index(int64_t entry) const {
  return load<int64_t>(index_.bytes(), document_index_offset(entry));
}

void IndexedDataset::require_sequence(int64_t sequence) const {
  require(0 <= sequence && sequence < num_sequences_,
          "{}: there is no sequence {}: the dataset has {}", prefix_, sequence, num_sequences_);
}

int64_t IndexedDataset::sequence_length(int64_t sequence) const {
  require_sequence(sequence);
  return length(sequence);
}

int64_t IndexedDataset::sequence_start(int64_t sequence) const {
  require_sequence(sequence);
  if (!starts_.empty()) return starts_[static_cast<size_t>(sequence)];
  return pointer(sequence) / static_cast<int64_t>(size_of(type_));
}

Range IndexedDataset::document_sequences(int64_t document) const {
  require(0 <= document && document < num_documents_,
          "{}: there is no document {}: the dataset has {}", prefix_, document, num_documents_);
  return {document_index(document), document_index(document + 1)};
}

int64_t IndexedDataset::document_start(int64_t document) const {
  const int64_t sequence = document_index(document);
  return sequence == num_sequences_ ? num_tokens_ : sequence_start(sequence);
}

Range IndexedDataset::document_tokens(int64_t document) const {
  require(0 <= document && document < num_documents_,
          "{}: there is no document {}: the dataset has {}", prefix_, document, num_documents_);
  return {document_start(document), document_start(document + 1)};
}

int64_t IndexedDataset::document_at(int64_t position) const {
  require(0 <= position && position < num_tokens_, "{}: there is no token {}: the dataset has {}",
          prefix_, position, num_tokens_);
  // Finds the first document that starts after the token. The one before it is not empty.
  int64_t low = 0, high = num_documents_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (document_start(middle) <= position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int32_t> out) const {
  const int64_t available = sequence_length(sequence);
  const int64_t count = static_cast<int64_t>(out.size());
  require(0 <= offset && count <= available && offset <= available - count,
          "{}: {} tokens from {} are not within sequence {}, which has {}", prefix_, count, offset,
          sequence, available);
  copy_tokens(static_cast<size_t>(pointer(sequence)) + static_cast<size_t>(offset) * size_of(type_),
              sequence_start(sequence) + offset, out);
}

void IndexedDataset::read_tokens(int64_t begin, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  require(0 <= begin && count <= num_tokens_ && begin <= num_tokens_ - count,
          "{}: {} tokens from {} are not within the dataset, which has {}", prefix_, count, begin,
          num_tokens_);
  for_each_stretch(begin, count, [&](size_t byte, int64_t position, int64_t piece) {
    copy_tokens(byte, position,
                out.subspan(static_cast<size_t>(position - begin), static_cast<size_t>(piece)));
  });
}

void IndexedDataset::will_read_tokens(int64_t begin, int64_t count) const {
  if (begin < 0 || count <= 0 || count > num_tokens_ || begin > num_tokens_ - count) return;
  for_each_stretch(begin, count, [&](size_t byte, int64_t /*position*/, int64_t piece) {
    bin_.will_read(byte, static_cast<size_t>(piece) * size_of(type_));
  });
}

template <typename Use>
void IndexedDataset::for_each_stretch(int64_t begin, int64_t count, Use&& use) const {
  if (starts_.empty()) {
    use(static_cast<size_t>(begin) * size_of(type_), begin, count);
    return;
  }
  int64_t sequence = std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin() - 1;
  for (int64_t position = begin; position < begin + count; ++sequence) {
    const int64_t offset = position - starts_[static_cast<size_t>(sequence)];
    const int64_t piece = std::min(begin + count - position, length(sequence) - offset);
    use(static_cast<size_t>(pointer(sequence)) + static_cast<size_t>(offset) * size_of(type_),
        position, piece);
    position += piece;
  }
}

void IndexedDataset::copy_tokens(size_t byte, int64_t position, std::span<int32_t> out) const {
  dispatch_token_type(type_, [&]<typename T>() {
    const std::span<const std::byte> source = bin_.bytes().subspan(byte, out.size() * sizeof(T));
    const auto limit = static_cast<uint64_t>(vocab_size_);
    // One flag for all tokens instead of branches, so that the loop vectorizes. A negative token
    // becomes a very large one.
    bool outside = false;
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t token = load_token<T>(source, i);
      outside |= static_cast<uint64_t>(token) >= limit;
      out[i] = static_cast<int32_t>(token);
    }
    if (!outside) return;
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t token = load_token<T>(source, i);
      if (static_cast<uint64_t>(token) < limit) continue;
      fail(
          "{}: the token at position {} (byte {}) is {}, but the vocabulary has {} tokens, 0 to "
          "{}; it is in document {}, counted from 0: was the dataset made with another tokenizer, "
          "or is model.vocab_size too small?",
          bin_.path(), position + static_cast<int64_t>(i), byte + i * sizeof(T), token, vocab_size_,
          vocab_size_ - 1, document_at(position + static_cast<int64_t>(i)));
    }
  });
}

}  // namespace tessera
