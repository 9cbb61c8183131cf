#include "launch/data/indexed/check_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/support/text/human_text.h"

namespace tessera {
namespace {

/// Sets the smallest and the largest token. Throws at the first that is not allowed.
void read_all_tokens(const IndexedDataset& dataset, DatasetCheck& check,
                     const std::function<void(int64_t, int64_t)>& on_progress) {
  constexpr int64_t kPiece = 1 << 18;
  std::vector<int32_t> tokens;
  for (int64_t begin = 0; begin < dataset.num_tokens(); begin += kPiece) {
    tokens.resize(static_cast<size_t>(std::min(kPiece, dataset.num_tokens() - begin)));
    dataset.read_tokens(begin, tokens);
    const auto [smallest, largest] = std::minmax_element(tokens.begin(), tokens.end());
    check.smallest = std::min(check.smallest.value_or(*smallest), *smallest);
    check.largest = std::max(check.largest.value_or(*largest), *largest);
    if (on_progress) on_progress(begin + std::ssize(tokens), dataset.num_tokens());
  }
}

}  // namespace

DatasetCheck check_dataset(const std::string& prefix, int64_t vocab_size,
                           const std::function<void(int64_t, int64_t)>& on_progress) {
  const IndexedDataset dataset(prefix, vocab_size);
  dataset.require_file_order();
  DatasetCheck check;
  check.prefix = prefix;
  check.token_type = dataset.token_type();
  check.documents = dataset.num_documents();
  check.sequences = dataset.num_sequences();
  check.tokens = dataset.num_tokens();
  check.unused_bytes = dataset.unused_bytes();
  read_metadata(dataset);  // throws if it is damaged or of another dataset
  read_all_tokens(dataset, check, on_progress);
  return check;
}

std::string to_string(const DatasetCheck& check) {
  std::string text = fmt::format("{}: {} documents, {} sequences, {} tokens ({})", check.prefix,
                                 grouped(check.documents), grouped(check.sequences),
                                 grouped(check.tokens), to_string(check.token_type));
  if (check.largest) text += fmt::format(", ids {} to {}", *check.smallest, *check.largest);
  if (check.unused_bytes > 0) {
    text += fmt::format(", {} bytes of {}.bin belong to no sequence", grouped(check.unused_bytes),
                        check.prefix);
  }
  return text + ": no fault found";
}

}  // namespace tessera
