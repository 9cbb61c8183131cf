#include "launch/data/datasets/text_tuples.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/ops/cross_entropy.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"anchor", "positive", "negative"};

}  // namespace

std::optional<TupleColumns> tuple_columns(const std::string& path, const ColumnNames& columns) {
  const Json row = first_row(path, columns);
  if (!row.contains(kNames[0])) return std::nullopt;
  return TupleColumns{row.contains(kNames[2])};
}

std::shared_ptr<const TextSamples> read_tuples(const std::string& path, TupleUse use,
                                               const ClassificationEncoder& encoder,
                                               const RowOptions& options) {
  const bool negatives = use.hard_negatives;
  const size_t texts = negatives ? 3 : 2, queries = use.symmetric_loss ? 2 : 1;
  auto tuples = std::make_shared<TextSamples>(path, "tuple",
                                              encoder.seq_length() * static_cast<int64_t>(texts));
  Sample tuple, text;
  RowReader rows(path, {{kNames[0], kNames[1]}, {kNames[2]}}, options);
  while (rows.next()) {
    require(rows.has(kNames[2]) == negatives,
            "{}: there is {} negative, but model.hard_negatives is {}: choose {}", rows.where(),
            negatives ? "no" : "a", negatives, !negatives);
    tuple.clear();
    bool truncated = false;
    for (size_t i = 0; i < texts; ++i) {
      const std::string where = fmt::format("{}, {}", rows.where(), kNames[i]);
      truncated = encoder.encode(rows.text(kNames[i]), {}, where, text) || truncated;
      tuple.tokens.insert(tuple.tokens.end(), text.tokens.begin(), text.tokens.end());
      tuple.document_lengths.push_back(static_cast<int32_t>(text.tokens.size()));
      tuple.labels.push_back(i < queries ? 0 : kIgnoreTarget);
    }
    tuples->add(tuple, truncated);
  }
  tuples->require_samples();
  return tuples;
}

}  // namespace tessera
