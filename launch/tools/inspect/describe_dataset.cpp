#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/support/text/utf8.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {
namespace {

/// Tokens shown of a document.
constexpr int64_t kShownTokens = 60;

/// "shortest 1, median 24, mean 31.5, longest 804"
std::string lengths_text(std::vector<int64_t> lengths) {
  if (lengths.empty()) return "none";
  const auto middle = lengths.begin() + std::ssize(lengths) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  const int64_t median = *middle;
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const double mean =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) /
      static_cast<double>(lengths.size());
  return fmt::format("shortest {}, median {}, mean {:.1f}, longest {}", grouped(*shortest),
                     grouped(median), mean, grouped(*longest));
}

std::string document_lengths(const IndexedDataset& dataset) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < dataset.num_documents(); ++i) {
    lengths.push_back(dataset.document_tokens(i).size());
  }
  return lengths_text(std::move(lengths));
}

std::string sequence_lengths(const IndexedDataset& dataset) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < dataset.num_sequences(); ++i) {
    lengths.push_back(dataset.sequence_length(i));
  }
  return lengths_text(std::move(lengths));
}

std::string metadata_lines(const DatasetMetadata& metadata) {
  if (metadata.tokenizer.kind == kNoTokenizer) {
    return description_line("tokenizer", to_string(metadata.tokenizer));
  }
  std::string text = description_line(
      "text", fmt::format("{}, {:.2f} bytes a token, {} unknown tokens, {} characters for invalid "
                          "UTF-8",
                          human_bytes(static_cast<size_t>(metadata.bytes)),
                          static_cast<double>(metadata.bytes) /
                              static_cast<double>(std::max<int64_t>(metadata.tokens, 1)),
                          grouped(metadata.unknown), grouped(metadata.invalid)));
  text += description_line("tokenizer", to_string(metadata.tokenizer));
  text += description_line("ends", metadata.end_of_document
                                       ? "a special token ends each document"
                                       : "no token ends a document; the index has the boundaries");
  return text;
}

std::string document_text(const IndexedDataset& dataset, int64_t document,
                          const Tokenizer* tokenizer) {
  const Range range = dataset.document_tokens(document);
  std::vector<int32_t> tokens(static_cast<size_t>(std::min(range.size(), kShownTokens)));
  dataset.read_tokens(range.begin, tokens);
  const char* more = range.size() > kShownTokens ? " ..." : "";
  std::string shown = fmt::format("{}", fmt::join(tokens, " "));
  const auto is_unknown = [&](int32_t token) { return token >= tokenizer->vocab_size(); };
  if (tokenizer != nullptr && std::ranges::any_of(tokens, is_unknown)) {
    shown +=
        fmt::format(" (not all are among the {} tokens of the tokenizer)", tokenizer->vocab_size());
  } else if (tokenizer != nullptr) {
    shown = Json(valid_utf8(tokenizer->decode(tokens))).dump();
  }
  return fmt::format("document {}, {} tokens: {}{}\n", document, grouped(range.size()), shown,
                     more);
}

void check_tokenizer(const DatasetMetadata& metadata, const Tokenizer& tokenizer,
                     const std::string& prefix) {
  const TokenizerIdentity given = identity_of(tokenizer);
  require(given == metadata.tokenizer, "{} was made with the tokenizer {}, but --tokenizer is {}",
          metadata_path(prefix), to_string(metadata.tokenizer), to_string(given));
}

}  // namespace

std::string describe_dataset(const std::string& prefix, const Tokenizer* tokenizer,
                             int64_t documents) {
  const IndexedDataset dataset(prefix);
  const std::optional<DatasetMetadata> metadata = read_metadata(dataset);
  if (metadata && tokenizer != nullptr) check_tokenizer(*metadata, *tokenizer, prefix);
  const ByteTokenizer bytes;
  if (metadata && metadata->tokenizer == identity_of(bytes)) tokenizer = &bytes;

  const auto size = static_cast<size_t>(dataset.num_tokens()) * size_of(dataset.token_type());
  std::string text = fmt::format("{}: a dataset in Megatron-LM's format\n", prefix);
  text +=
      description_line("tokens", fmt::format("{} ({}), {}", grouped(dataset.num_tokens()),
                                             to_string(dataset.token_type()), human_bytes(size)));
  text += description_line("documents", fmt::format("{}: {}", grouped(dataset.num_documents()),
                                                    document_lengths(dataset)));
  text += description_line("sequences", fmt::format("{}: {}", grouped(dataset.num_sequences()),
                                                    sequence_lengths(dataset)));
  text += metadata ? metadata_lines(*metadata)
                   : description_line("metadata", "none: " + metadata_path(prefix));
  for (int64_t i = 0; i < std::min(documents, dataset.num_documents()); ++i) {
    text += document_text(dataset, i, tokenizer);
  }
  const bool has_text = !metadata || metadata->tokenizer.kind != kNoTokenizer;
  if (tokenizer == nullptr && documents > 0 && has_text) {
    text += "--tokenizer shows documents as text\n";
  }
  return text;
}

}  // namespace tessera
