#include "launch/data/datasets/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/dataset_origins.h"

namespace tessera {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                       int64_t seq_length, const GptDataOptions& options)
    : dataset_(std::move(dataset)), range_(tokens), seq_length_(seq_length), options_(options) {
  require(seq_length >= 1, "seq_length is {}, but must be at least 1", seq_length);
  require(0 <= tokens.begin && tokens.begin <= tokens.end && tokens.end <= dataset_->num_tokens(),
          "{}: tokens [{}, {}) are not within the dataset, which has {}", dataset_->prefix(),
          tokens.begin, tokens.end, dataset_->num_tokens());
  require(tokens.size() > seq_length,
          "{}: tokens [{}, {}) are {} tokens, but one sample of seq_length {} needs {}: use more "
          "text or a shorter seq_length",
          dataset_->prefix(), tokens.begin, tokens.end, tokens.size(), seq_length,
          static_cast<uint64_t>(seq_length) + 1);
  num_samples_ = (tokens.size() - 1) / seq_length;
}

void GptDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  out.clear();
  out.tokens.resize(static_cast<size_t>(seq_length_));
  out.targets.resize(static_cast<size_t>(seq_length_));
  fill(sample, out.tokens, out.targets);
  if (!options_.separate_documents)
    out.document_lengths.push_back(static_cast<int32_t>(seq_length_));
  if (!options_.separate_documents && options_.loss_across_documents) return;

  const Range tokens{range_.begin + sample * seq_length_,
                     range_.begin + (sample + 1) * seq_length_};
  int64_t begin = tokens.begin;
  for (int64_t document = dataset_->document_at(begin); begin < tokens.end; ++document) {
    const int64_t document_end = dataset_->document_tokens(document).end;
    const int64_t end = std::min(document_end, tokens.end);
    if (begin == end) continue;  // a document without tokens
    if (options_.separate_documents) {
      out.document_lengths.push_back(static_cast<int32_t>(end - begin));
    }
    if (!options_.loss_across_documents && end == document_end) {
      out.targets[static_cast<size_t>(end - 1 - tokens.begin)] = kIgnoreTarget;
    }
    begin = end;
  }
}

std::vector<TextOrigin> GptDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  const Range tokens{range_.begin + sample * seq_length_,
                     range_.begin + (sample + 1) * seq_length_};
  const TextOrigin all = origin_of(*dataset_, tokens, 0);
  if (!options_.separate_documents) return {all};
  std::vector<TextOrigin> origins;
  for (int64_t document = all.numbers.begin; document < all.numbers.end; ++document) {
    if (intersect(dataset_->document_tokens(document), tokens).empty()) continue;
    origins.push_back({std::ssize(origins), all.path, all.unit, {document, document + 1}});
  }
  return origins;
}

void GptDataset::will_fill(int64_t sample, int64_t /*epoch*/) const {
  dataset_->will_read_tokens(range_.begin + sample * seq_length_, seq_length_ + 1);
}

void GptDataset::fill(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  require(0 <= sample && sample < num_samples_, "{}: there is no sample {}: there are {}",
          dataset_->prefix(), sample, num_samples_);
  const size_t length = static_cast<size_t>(seq_length_);
  require(tokens.size() == length && targets.size() == length,
          "a sample has {} tokens and targets, but there is room for {} and {}", length,
          tokens.size(), targets.size());
  const int64_t begin = range_.begin + sample * seq_length_;
  dataset_->read_tokens(begin, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  dataset_->read_tokens(begin + seq_length_, targets.last(1));
}

}  // namespace tessera
