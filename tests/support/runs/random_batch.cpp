#include "tests/support/runs/random_batch.h"

#include <algorithm>
#include <vector>

#include "core/ops/cross_entropy.h"
#include "models/architecture.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

std::vector<int32_t> random_ids(int64_t count, int64_t below, uint64_t seed) {
  const TestTensor ids = random_ints({count}, 0, static_cast<int32_t>(below), seed);
  const auto span = ids.tensor.span<int32_t>();
  return {span.begin(), span.end()};
}

std::vector<float> random_numbers(int64_t count, uint64_t seed) {
  const TestTensor numbers = random_tensor({count}, DType::f32, seed);
  const auto span = numbers.tensor.span<float>();
  return {span.begin(), span.end()};
}

Sample random_sample(const ModelConfig& model, uint64_t seed) {
  const ModelTraits traits = traits_of(model);
  const int64_t length = model.seq_length;
  Sample sample;
  sample.tokens = random_ids(length, model.vocab_size, seed);
  sample.document_lengths = {static_cast<int32_t>(length)};
  sample.targets.assign(static_cast<size_t>(length), kIgnoreTarget);
  if (traits.token_labels || model.head == Head::pretraining) {
    const int64_t classes = traits.token_labels ? model.num_labels : model.vocab_size;
    sample.targets = random_ids(length, classes, seed + 1);
  }
  const int64_t labels = model.next_sentence ? 2 : model.num_labels;
  const bool has_label = traits.document_labels && traits.label_width == 0;
  sample.labels = has_label ? random_ids(1, labels, seed + 2) : std::vector{kIgnoreTarget};
  sample.label_values = random_numbers(traits.label_width, seed + 3);
  sample.patches = random_numbers(length * traits.patch_width, seed + 4);
  if (traits.source_length > 0) {
    sample.source_tokens = random_ids(traits.source_length, model.vocab_size, seed + 5);
    sample.source_lengths = {static_cast<int32_t>(traits.source_length)};
  }
  return sample;
}

}  // namespace

RandomBatch::RandomBatch(const ModelConfig& model, int64_t rows, uint64_t seed)
    : buffers_(batch_shape(rows, traits_of(model))),
      on_device_(batch_shape(rows, traits_of(model)), test_device()) {
  const int64_t ids = std::max<int64_t>(model.vocab_size, model.num_labels);
  for (int64_t row = 0; row < rows; ++row) {
    buffers_.append(random_sample(model, 10 * (seed + static_cast<uint64_t>(row))), ids,
                    "random samples", row);
  }
  batch = on_device_.upload(buffers_);
}

}  // namespace tessera::test
