#include "launch/data/indexed/indexed_dataset_writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/support/files/replace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::string& checked_prefix(const std::string& prefix,
                                  const IndexedDatasetWriter::Options& options) {
  require(fs::path(prefix).has_filename(),
          "\"{}\" cannot be the name of a dataset: it does not end in a file name", prefix);
  for (const std::string& path : dataset_files(prefix)) {
    require_replaceable(path, replace_if(options.overwrite));
  }
  return prefix;
}

template <typename T>
void write_values(StagedFile& file, const std::vector<T>& values) {
  file.write(std::as_bytes(std::span(values)));
}

template <typename T>
void write_value(StagedFile& file, const T& value) {
  file.write(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

std::string unordered_path(const std::string& prefix) { return prefix + ".bin.unordered"; }

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, const Options& options)
    : options_(options),
      prefix_(checked_prefix(prefix, options)),
      bin_(prefix + ".bin", replace_if(options.overwrite)),
      index_(prefix + ".idx", replace_if(options.overwrite)),
      metadata_(metadata_path(prefix), replace_if(options.overwrite)),
      tokenizer_(tokenizer_path(prefix), replace_if(options.overwrite)) {
  require(0 < options.max_sequence_length &&
              options.max_sequence_length <= std::numeric_limits<int32_t>::max(),
          "max_sequence_length is {}, but must be 1 to {}", options.max_sequence_length,
          std::numeric_limits<int32_t>::max());
  if (options.order) unordered_.emplace(unordered_path(prefix), Replace::overwrite);
}

void IndexedDatasetWriter::append(std::span<const int32_t> tokens) {
  constexpr int64_t kPiece = 32768;  // keeps stored_ small
  while (!tokens.empty()) {
    if (current_length_ == options_.max_sequence_length) end_sequence();
    const int64_t count = std::min({kPiece, static_cast<int64_t>(tokens.size()),
                                    options_.max_sequence_length - current_length_});
    store(tokens.first(static_cast<size_t>(count)));
    tokens = tokens.subspan(static_cast<size_t>(count));
    current_length_ += count;
    num_tokens_ += count;
  }
}

void IndexedDatasetWriter::store(std::span<const int32_t> tokens) {
  // A document up to this size is discarded without a change of the file.
  constexpr size_t kMostStored = size_t{1} << 20;
  dispatch_token_type(options_.type, [&]<typename T>() {
    const size_t begin = stored_.size();
    stored_.resize(begin + tokens.size() * sizeof(T));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto stored = static_cast<T>(tokens[i]);
      if (tokens[i] < 0 || static_cast<int64_t>(stored) != tokens[i]) {
        fail("{}: token {} at position {} cannot be stored as {}, whose range is 0 to {}",
             bin_.path(), tokens[i], num_tokens_ + static_cast<int64_t>(i),
             to_string(options_.type), std::numeric_limits<T>::max());
      }
      std::memcpy(stored_.data() + begin + i * sizeof(T), &stored, sizeof(T));
    }
  });
  if (stored_.size() >= kMostStored) write_stored();
}

void IndexedDatasetWriter::write_stored() {
  token_file().write(stored_);
  stored_.clear();
}

void IndexedDatasetWriter::end_sequence() {
  sequence_lengths_.push_back(narrow<int32_t>(current_length_));
  current_length_ = 0;
}

void IndexedDatasetWriter::end_document() {
  if (current_length_ > 0) end_sequence();
  write_stored();
  document_start_ = num_tokens_;
  document_indices_.push_back(static_cast<int64_t>(sequence_lengths_.size()));
}

void IndexedDatasetWriter::discard_document() {
  const size_t token_bytes = size_of(options_.type);
  const size_t appended = static_cast<size_t>(num_tokens_ - document_start_) * token_bytes;
  if (appended > stored_.size()) {
    token_file().truncate(static_cast<size_t>(document_start_) * token_bytes);
  }
  stored_.clear();
  current_length_ = 0;
  num_tokens_ = document_start_;
  sequence_lengths_.resize(static_cast<size_t>(document_indices_.back()));
}

void IndexedDatasetWriter::finish(std::string_view metadata, std::string_view tokenizer) {
  require(current_length_ == 0 && document_indices_.back() == num_sequences(),
          "{}: the last document was not ended before the dataset was finished", bin_.path());
  if (options_.order) put_in_order();
  bin_.close();
  write_index();
  index_.close();
  metadata_.write(metadata);
  metadata_.close();
  has_metadata_ = !metadata.empty();
  tokenizer_.write(tokenizer);
  tokenizer_.close();
  has_tokenizer_ = !tokenizer.empty();
  publish();
}

// Without its index a dataset does not exist. So an old index is removed first and the new one is
// renamed last, with each step on disk before the next. After a crash at any point, either the old
// dataset is complete, or there is none, which readers report, or the new one is complete. The next
// writer that may overwrite replaces leftovers. An index never stands beside another dataset's
// tokens, metadata or tokenizer. The locks of all files keep other writers out.
void IndexedDatasetWriter::publish() {
  checked_prefix(prefix_, options_);  // a dataset may have appeared since the start
  index_.remove_older();
  metadata_.remove_older();
  tokenizer_.remove_older();
  try {
    bin_.publish();
    if (has_metadata_) metadata_.publish();
    if (has_tokenizer_) tokenizer_.publish();
    index_.publish();
  } catch (...) {
    bin_.withdraw();
    metadata_.withdraw();
    tokenizer_.withdraw();
    throw;
  }
}

void IndexedDatasetWriter::put_in_order() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const auto token_bytes = static_cast<int64_t>(size_of(options_.type));
  const int64_t documents = num_documents();
  const auto first_sequence = [&](int64_t document) {
    return document_indices_[static_cast<size_t>(document)];
  };
  std::vector<int64_t> starts = {0};  // of each document, in bytes, and the end
  starts.reserve(document_indices_.size());
  int64_t sequence = 0;
  for (int64_t i = 0; i < documents; ++i) {
    int64_t end = starts.back();
    for (; sequence < first_sequence(i + 1); ++sequence) {
      end += sequence_lengths_[static_cast<size_t>(sequence)] * token_bytes;
    }
    starts.push_back(end);
  }
  std::vector<int32_t> lengths;
  std::vector<int64_t> indices = {0};
  lengths.reserve(sequence_lengths_.size());
  indices.reserve(document_indices_.size());
  for (int64_t place = 0; place < documents; ++place) {
    const int64_t document = options_.order(documents, place);
    const int64_t end = starts[static_cast<size_t>(document) + 1];
    for (int64_t begin = starts[static_cast<size_t>(document)]; begin < end; begin += kPiece) {
      stored_.resize(static_cast<size_t>(std::min(kPiece, end - begin)));
      unordered_->read(static_cast<size_t>(begin), stored_);
      bin_.write(stored_);
    }
    const auto first = sequence_lengths_.begin() + first_sequence(document);
    lengths.insert(lengths.end(), first, sequence_lengths_.begin() + first_sequence(document + 1));
    indices.push_back(std::ssize(lengths));
  }
  sequence_lengths_ = std::move(lengths);
  document_indices_ = std::move(indices);
  unordered_.reset();  // removes the file
}

void IndexedDatasetWriter::write_index() {
  index_.write(std::as_bytes(std::span(kIndexMagic)));
  write_value(index_, kIndexVersion);
  write_value(index_, options_.type);
  write_value(index_, static_cast<uint64_t>(sequence_lengths_.size()));
  write_value(index_, static_cast<uint64_t>(document_indices_.size()));
  write_values(index_, sequence_lengths_);
  const int64_t token_bytes = static_cast<int64_t>(size_of(options_.type));
  int64_t pointer = 0;
  for (const int32_t length : sequence_lengths_) {
    write_value(index_, pointer);
    pointer += length * token_bytes;
  }
  write_values(index_, document_indices_);
}

}  // namespace tessera
