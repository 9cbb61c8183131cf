#include "launch/tools/evaluate/eval_dump.h"

#include "core/memory.h"
#include "core/ops/cross_entropy.h"
#include "launch/checkpoint/format/safetensors.h"

namespace tessera {
namespace {

void append(std::vector<int32_t>& all, const Tensor& more) {
  const auto values = more.span<int32_t>();
  all.insert(all.end(), values.begin(), values.end());
}

Tensor view_of(std::vector<int32_t>& values) {
  return {values.data(), {std::ssize(values)}, DType::i32, kCpu};
}

/// The length of each document, from where they start.
void append_lengths(std::vector<int32_t>& all, const Tensor& documents) {
  const auto starts = documents.span<int32_t>();
  for (size_t i = 1; i < starts.size(); ++i) all.push_back(starts[i] - starts[i - 1]);
}

}  // namespace

void EvalDump::add(const TokenBatch& batch) {
  const size_t first = targets_.size();
  append(tokens_, batch.tokens);
  append(token_types_, batch.token_types);
  append(labels_, batch.labels);
  const auto values = batch.label_values.span<float>();
  label_values_.insert(label_values_.end(), values.begin(), values.end());
  targets_.resize(tokens_.size(), kIgnoreTarget);
  const auto rows = batch.target_rows.span<int32_t>(), targets = batch.targets.span<int32_t>();
  for (size_t i = 0; i < rows.size(); ++i) {
    targets_[first + static_cast<size_t>(rows[i])] = targets[i];
  }
  append_lengths(document_lengths_, batch.documents);
  if (batch.source.seq_length == 0) return;
  append(source_tokens_, batch.source.tokens);
  append_lengths(source_lengths_, batch.source.documents);
}

void EvalDump::write(const std::string& path, const Losses& losses) {
  const OwnedTensor means({2}, DType::f64);
  means.tensor.data<double>()[0] = losses.token;
  means.tensor.data<double>()[1] = losses.document;
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {"losses", means.tensor},
      {"tokens", view_of(tokens_)},
      {"targets", view_of(targets_)},
      {"token_types", view_of(token_types_)},
      {"document_lengths", view_of(document_lengths_)},
      {"labels", view_of(labels_)}};
  if (!label_values_.empty()) {
    const int64_t documents = std::ssize(labels_);
    const Shape shape = {documents, std::ssize(label_values_) / documents};
    tensors.emplace_back("label_values", Tensor(label_values_.data(), shape, DType::f32, kCpu));
  }
  if (!source_lengths_.empty()) {
    tensors.emplace_back("source_tokens", view_of(source_tokens_));
    tensors.emplace_back("source_lengths", view_of(source_lengths_));
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  }
  SafetensorsWriter writer(path, entries);
  for (const auto& [name, tensor] : tensors) writer.append(tensor);
  writer.finish();
}

}  // namespace tessera
