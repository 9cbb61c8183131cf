#include "launch/tools/design/hold_out.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/range.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

/// A dataset with the tokenizer of another one.
class Part {
 public:
  Part(const IndexedDataset& from, const Tokenizer& tokenizer, const std::string& prefix)
      : from_(from),
        tokenizer_(tokenizer),
        writer_(prefix, {.type = from.token_type(), .overwrite = true}) {}

  /// Appends tokens of the other dataset, each part of a document as one.
  void append(const Range& tokens) {
    std::vector<int32_t> ids;
    for (int64_t begin = tokens.begin; begin < tokens.end;) {
      const int64_t end = std::min(tokens.end, from_.document_tokens(from_.document_at(begin)).end);
      ids.resize(static_cast<size_t>(end - begin));
      from_.read_tokens(begin, ids);
      writer_.append(ids);
      writer_.end_document();
      if (ids.back() == tokenizer_.end_of_document()) ids.pop_back();  // no text
      bytes_ += std::ssize(tokenizer_.decode(ids));
      begin = end;
    }
  }

  void finish(DatasetMetadata metadata) {
    metadata.documents = writer_.num_documents();
    metadata.sequences = writer_.num_sequences();
    metadata.tokens = writer_.num_tokens();
    metadata.bytes = bytes_;
    writer_.finish(metadata_text(metadata), to_text(tokenizer_.to_json()));
  }

 private:
  const IndexedDataset& from_;
  const Tokenizer& tokenizer_;
  IndexedDatasetWriter writer_;
  int64_t bytes_ = 0;
};

}  // namespace

void hold_out(const std::string& dataset, double share, const std::string& held_out) {
  constexpr int64_t kMostPieces = 100, kTokens = 512;  // so that a piece is several rows
  const IndexedDataset whole(dataset);
  const auto tokenizer = tokenizer_of_dataset(dataset);
  const DatasetMetadata metadata = read_metadata(whole).value();
  const int64_t tokens = whole.num_tokens();
  const auto held = static_cast<int64_t>(share * static_cast<double>(tokens));
  const int64_t pieces = std::clamp<int64_t>(held / kTokens, 1, kMostPieces);
  Part rest(whole, *tokenizer, dataset), out(whole, *tokenizer, held_out);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = tokens * piece / pieces, end = tokens * (piece + 1) / pieces;
    const int64_t from = end - held / pieces;
    rest.append({begin, from});
    out.append({from, end});
  }
  out.finish(metadata);
  rest.finish(metadata);
}

}  // namespace tessera
