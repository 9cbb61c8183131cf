#include "launch/train/diagnosis/loaded_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "launch/train/run_layout.h"
#include "models/architecture.h"

namespace tessera {
namespace {

OwnedTensor tensor_of(const std::vector<int32_t>& numbers) {
  OwnedTensor tensor({std::ssize(numbers)}, DType::i32);
  std::ranges::copy(numbers, tensor.tensor.data<int32_t>());
  return tensor;
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
    : parts_(parts),
      first_place_(first_place),
      shape_(training_shape(parts.config, parts.groups, parts.arena.device())) {
  buffers_.reserve(static_cast<size_t>(size()));
  for (int64_t i = 0; i < size(); ++i) buffers_.emplace_back(shape_, parts.arena.device());
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

DocumentBatch::DocumentBatch(const TokenBatch& host, int64_t document, Device device,
                             const ContextShape& context)
    : batch_(host) {
  const bool exists = document < host.num_documents();
  const Range own = {document, document + (exists ? 1 : 0)};
  const auto keep = [&](const std::vector<int32_t>& numbers) {
    owned_.push_back(tensor_of(numbers));
    return owned_.back().tensor;
  };
  // Takes the rows of the document, and returns them.
  const auto take = [&](Tensor& documents, std::initializer_list<Tensor*> tensors) {
    const auto ends = documents.span<int32_t>();
    const Range rows = {ends[static_cast<size_t>(own.begin)], ends[static_cast<size_t>(own.end)]};
    for (Tensor* tensor : tensors) {
      if (tensor->defined()) *tensor = tensor->slice(rows.begin, rows.end);
    }
    documents = exists ? keep({0, narrow<int32_t>(rows.size())}) : keep({0});
    return rows;
  };
  const Range tokens =
      take(batch_.documents, {&batch_.tokens, &batch_.positions, &batch_.token_types,
                              &batch_.padded_rows, &batch_.patches, &batch_.hidden});
  batch_.document_length = tokens.size();
  Range targets;
  std::vector<int32_t> rows;
  for (const int32_t row : host.target_rows.span<int32_t>()) {
    if (row < tokens.begin) ++targets.begin;
    if (tokens.contains(row)) rows.push_back(row - narrow<int32_t>(tokens.begin));
  }
  batch_.target_rows = keep(rows);
  batch_.targets = batch_.targets.slice(targets.begin, targets.begin + std::ssize(rows));
  batch_.labels = batch_.labels.slice(own.begin, own.end);
  if (batch_.label_values.numel() > 0) {
    batch_.label_values = batch_.label_values.slice(own.begin, own.end);
  }
  if (SourceTokens& source = batch_.source; source.seq_length > 0) {
    take(source.documents, {&source.tokens, &source.positions, &source.padded_rows});
  }
  if (context.ranks > 1) {
    cut_.emplace(batch_, context, kCpu);
    cut_->cut(batch_);
    batch_ = cut_->batch();
  }
  if (device.is_cpu()) return;
  for (Tensor* tensor : tensors_of(batch_)) {
    const OwnedTensor& moved = owned_.emplace_back(tensor->shape(), tensor->dtype(), device);
    copy(*tensor, moved.tensor);
    *tensor = moved.tensor;
  }
}

int64_t most_documents(const ParallelGroups& groups, int64_t own) {
  groups.world.all_reduce(Tensor(&own, {1}, DType::i64, kCpu), ReduceOp::max);
  return own;
}

}  // namespace tessera
