#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/dataset_statistics.h"
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

std::string metadata_lines(const DatasetMetadata& metadata) {
  std::string text = description_line("tokenizer", to_string(metadata.tokenizer));
  if (metadata.tokenizer.kind == kNoTokenizer) return text;
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
                             int64_t documents, std::optional<int64_t> document) {
  const IndexedDataset dataset(prefix);
  const std::optional<DatasetMetadata> metadata = read_metadata(dataset);
  if (metadata && tokenizer != nullptr) check_tokenizer(*metadata, *tokenizer, prefix);
  const ByteTokenizer bytes;
  if (metadata && metadata->tokenizer == identity_of(bytes)) tokenizer = &bytes;
  if (document) {
    const int64_t count = dataset.num_documents();
    require(*document < count, "inspect: --document is {}, but {} has {} documents", *document,
            prefix, count);
    const Range range = dataset.document_tokens(*document);
    std::vector<int32_t> tokens(static_cast<size_t>(range.size()));
    dataset.read_tokens(range.begin, tokens);
    return fmt::format("document {} of {}, {} tokens\n", *document, prefix, grouped(range.size())) +
           describe_ids(tokens, tokenizer);
  }

  std::string text = fmt::format("{}: a dataset in Megatron-LM's format\n", prefix);
  text += describe_statistics(dataset, metadata);
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
