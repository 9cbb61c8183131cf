#include "launch/data/indexed/dataset_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

// Counts of metadata are untrusted: in double precision their sums do not overflow.

double share(int64_t part, double whole) {
  return static_cast<double>(part) / std::max(whole, 1.0);
}

/// "1,204 (0.83%)"
std::string with_share(int64_t part, double whole) {
  return fmt::format("{} ({:.2f}%)", grouped(part), 100.0 * share(part, whole));
}

std::string documents_text(const LengthStatistics& documents, const DatasetMetadata* metadata) {
  std::string text = grouped(documents.count);
  if (documents.empty > 0) text += fmt::format(", {} of them empty", grouped(documents.empty));
  if (metadata != nullptr && metadata->empty_documents > 0) {
    text += fmt::format("; {} without a token were left out", grouped(metadata->empty_documents));
  }
  if (metadata != nullptr && metadata->shuffle_seed) {
    text += fmt::format("; in a random order with seed {}", *metadata->shuffle_seed);
  }
  return text;
}

/// Shares are of all documents, those that were left out included.
std::string duplicates_text(const DatasetMetadata& metadata) {
  const int64_t same = metadata.duplicates.value_or(0);
  const double found =
      static_cast<double>(same) + static_cast<double>(metadata.near_duplicates.value_or(0));
  const double all =
      static_cast<double>(metadata.documents) + (metadata.duplicates_dropped ? found : 0.0);
  std::string text = fmt::format("{} have the text of an earlier document", with_share(same, all));
  if (metadata.near_duplicates) {
    text += fmt::format(", {} nearly", with_share(*metadata.near_duplicates, all));
  }
  if (found > 0 && metadata.duplicates_dropped) text += "; they were left out";
  return text;
}

std::vector<std::string> table_row(const char* name, const LengthStatistics& lengths) {
  return {name,
          fmt::format("{:.1f}", lengths.mean),
          grouped(lengths.median),
          grouped(lengths.percentile90),
          grouped(lengths.percentile99),
          grouped(lengths.longest)};
}

}  // namespace

LengthStatistics length_statistics(std::vector<int64_t> lengths) {
  LengthStatistics statistics;
  if (lengths.empty()) return statistics;
  statistics.count = std::ssize(lengths);
  statistics.empty = std::ranges::count(lengths, 0);
  statistics.mean =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) /
      static_cast<double>(lengths.size());
  const auto percentile = [&](size_t percent) {
    const size_t rank = (lengths.size() * percent + 99) / 100;  // from 1
    const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(lengths.begin(), place, lengths.end());
    return *place;
  };
  statistics.median = percentile(50);
  statistics.percentile90 = percentile(90);
  statistics.percentile99 = percentile(99);
  statistics.longest = percentile(100);
  return statistics;
}

LengthStatistics document_lengths(const IndexedDataset& dataset) {
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.num_documents()));
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = dataset.document_tokens(static_cast<int64_t>(i)).size();
  }
  return length_statistics(std::move(lengths));
}

LengthStatistics sequence_lengths(const IndexedDataset& dataset) {
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.num_sequences()));
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = dataset.sequence_length(static_cast<int64_t>(i));
  }
  return length_statistics(std::move(lengths));
}

std::string describe_statistics(const IndexedDataset& dataset,
                                const std::optional<DatasetMetadata>& metadata) {
  const LengthStatistics documents = document_lengths(dataset);
  const LengthStatistics sequences = sequence_lengths(dataset);
  const auto size = static_cast<size_t>(dataset.num_tokens()) * size_of(dataset.token_type());
  std::string text =
      description_line("tokens", fmt::format("{} ({}), {}", grouped(dataset.num_tokens()),
                                             to_string(dataset.token_type()), human_bytes(size)));
  text += description_line("documents", documents_text(documents, metadata ? &*metadata : nullptr));
  if (metadata && metadata->duplicates) {
    text += description_line("duplicates", duplicates_text(*metadata));
  }
  if (metadata && metadata->tokenizer.kind != kNoTokenizer) {
    const auto tokens = static_cast<double>(metadata->tokens);
    text += description_line(
        "text", fmt::format("{}, {:.2f} bytes a token, unknown tokens: {}{}",
                            human_bytes(static_cast<size_t>(metadata->bytes)),
                            share(metadata->bytes, tokens), with_share(metadata->unknown, tokens),
                            metadata->invalid == 0
                                ? ""
                                : fmt::format(", characters that replace invalid UTF-8: {}",
                                              grouped(metadata->invalid))));
  }
  std::vector<std::vector<std::string>> rows = {
      {"tokens in a", "mean", "median", "90%", "99%", "longest"}, table_row("document", documents)};
  if (sequences != documents) rows.push_back(table_row("sequence", sequences));
  return text + table(rows, {1, 2, 3, 4, 5});
}

}  // namespace tessera
