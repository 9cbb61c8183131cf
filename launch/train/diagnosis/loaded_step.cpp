#include "launch/train/diagnosis/loaded_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// Numbers in the device's memory.
OwnedTensor on_device(const std::vector<int32_t>& numbers, Device device) {
  const OwnedTensor host({std::ssize(numbers)}, DType::i32);
  std::ranges::copy(numbers, host.tensor.data<int32_t>());
  OwnedTensor result({std::ssize(numbers)}, DType::i32, device);
  copy(host.tensor, result.tensor);
  return result;
}

}  // namespace

std::string DocumentName::source() const {
  std::vector<std::string> from;
  for (const TextOrigin& origin : origins) from.push_back(to_string(origin));
  return fmt::format("{}", fmt::join(from, ", "));
}

std::string DocumentName::text() const {
  const std::string name = alone ? fmt::format("sample {}", sample)
                                 : fmt::format("document {} of sample {}", document, sample);
  return origins.empty() ? name : fmt::format("{} ({})", name, source());
}

std::vector<std::string> names_of(const std::vector<DocumentName>& documents) {
  constexpr size_t kMostSamples = 3;
  std::map<std::string, std::vector<const DocumentName*>> by_source;
  std::vector<std::string> order, names;
  for (const DocumentName& document : documents) {
    // Without a source, each has a name of its own.
    const std::string source = document.origins.empty() ? document.text() : document.source();
    std::vector<const DocumentName*>& same = by_source[source];
    if (same.empty()) order.push_back(source);
    same.push_back(&document);
  }
  for (const std::string& source : order) {
    const std::vector<const DocumentName*>& same = by_source[source];
    if (same.size() == 1) {
      names.push_back(same[0]->text());
      continue;
    }
    std::vector<int64_t> samples;
    for (const DocumentName* document : same) samples.push_back(document->sample);
    samples.resize(std::min(samples.size(), kMostSamples));
    names.push_back(fmt::format(
        "samples {}{} ({})", fmt::join(samples, ", "),
        same.size() > kMostSamples ? fmt::format(" and {} more", same.size() - kMostSamples) : "",
        source));
  }
  return names;
}

LoadedStep::LoadedStep(const StepParts& parts, int64_t first_place)
    : parts_(parts), first_place_(first_place) {
  const BatchShape shape = training_batch_shape(parts.config.batch.micro, parts.config.model,
                                                parts.config.mlm, parts.arena.device());
  buffers_.reserve(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) buffers_.emplace_back(shape, parts.arena.device());
}

TargetCounts LoadedStep::load() {
  TargetCounts counts;
  for (int64_t i = 0; i < size(); ++i) {
    counts.add(parts_.batches.load_train(first_place_, i, buffers_[static_cast<size_t>(i)]));
  }
  return counts;
}

TokenBatch LoadedStep::batch(int64_t i) {
  return parts_.device_batch.upload(buffers_[static_cast<size_t>(i)]);
}

TokenBatch LoadedStep::on_device(int64_t i) {
  return parts_.device_batch.upload_unpadded(buffers_[static_cast<size_t>(i)]);
}

std::vector<int64_t> LoadedStep::samples(int64_t i) const {
  const Range rows = parts_.batches.global_rows(i);
  std::vector<int64_t> samples;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    samples.push_back(parts_.batches.train_sample_at(first_place_ + row));
  }
  return samples;
}

std::vector<DocumentName> LoadedStep::documents(int64_t i) const {
  const TokenBatch batch = on_host(i);
  const auto begins = batch.documents.span<int32_t>();
  const auto padded_rows = batch.padded_rows.span<int32_t>();
  const int64_t first_row = parts_.batches.global_rows(i).begin;
  std::vector<DocumentName> documents;
  int64_t last_place = -1;
  for (size_t d = 0; d + 1 < begins.size(); ++d) {
    const int64_t row = padded_rows[static_cast<size_t>(begins[d])] / batch.seq_length;
    const int64_t place = first_place_ + first_row + row;
    DocumentName name{.sample = parts_.batches.train_sample_at(place)};
    if (place == last_place) {
      name.document = documents.back().document + 1;
      documents.back().alone = name.alone = false;
    }
    for (const TextOrigin& origin : parts_.batches.train_origins_at(place)) {
      if (origin.document == name.document) name.origins.push_back(origin);
    }
    last_place = place;
    documents.push_back(std::move(name));
  }
  return documents;
}

DocumentBatch::DocumentBatch(const TokenBatch& host, const TokenBatch& device, int64_t document)
    : batch_(device) {
  const bool exists = document < host.num_documents();
  const Range own = {document, document + (exists ? 1 : 0)};
  const auto part_of = [&](const Tensor& begins) {
    const auto all = begins.span<int32_t>();
    return Range{all[static_cast<size_t>(own.begin)], all[static_cast<size_t>(own.end)]};
  };
  const Range tokens = part_of(host.documents);
  const Device where = device.tokens.device();
  const auto cut = [](Tensor& tensor, const Range& range) {
    if (tensor.defined()) tensor = tensor.slice(range.begin, range.end);
  };
  for (Tensor* tensor : {&batch_.tokens, &batch_.positions, &batch_.token_types,
                         &batch_.padded_rows, &batch_.patches, &batch_.hidden}) {
    cut(*tensor, tokens);
  }
  const auto bounds_of = [&](const Range& rows) {
    std::vector<int32_t> bounds = {0};
    if (exists) bounds.push_back(narrow<int32_t>(rows.size()));
    return on_device(bounds, where);
  };
  documents_ = bounds_of(tokens);
  batch_.documents = documents_.tensor;
  batch_.document_length = tokens.size();
  Range targets;
  std::vector<int32_t> rows;
  for (const int32_t row : host.target_rows.span<int32_t>()) {
    if (row < tokens.begin) ++targets.begin;
    if (tokens.contains(row)) rows.push_back(row - narrow<int32_t>(tokens.begin));
  }
  targets.end = targets.begin + std::ssize(rows);
  target_rows_ = on_device(rows, where);
  batch_.target_rows = target_rows_.tensor;
  cut(batch_.targets, targets);
  cut(batch_.labels, own);
  if (batch_.label_values.defined() && batch_.label_values.numel() > 0) {
    cut(batch_.label_values, own);
  }
  if (host.source.seq_length == 0) return;
  const Range source = part_of(host.source.documents);
  for (Tensor* tensor :
       {&batch_.source.tokens, &batch_.source.positions, &batch_.source.padded_rows}) {
    cut(*tensor, source);
  }
  source_documents_ = bounds_of(source);
  batch_.source.documents = source_documents_.tensor;
}

int64_t most_documents(const ParallelGroups& groups, int64_t own) {
  groups.world.all_reduce(Tensor(&own, {1}, DType::i64, kCpu), ReduceOp::max);
  return own;
}

}  // namespace tessera
