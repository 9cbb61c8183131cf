#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/model_state.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/layers/contrastive_loss.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/partial_gradients.h"
#include "tests/launch/huggingface/fixture.h"
#include "tests/support/source_folder.h"

// Models of each class of transformers with their gradients in float64, written by
// tests/parity/make_class_goldens.py.
namespace tessera {
namespace {

using namespace testing_interop;

/// A tensor of a golden file: fp32, or int32 read as such.
struct GoldenFile {
  explicit GoldenFile(const fs::path& path) : file(path) {}

  template <typename T>
  std::vector<T> read(const std::string& name) const {
    const auto bytes = file.bytes(file.entries().at(name));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  SafetensorsFile file;
};

/// Of an encoder–decoder.
void add_sources(const GoldenFile& golden, std::vector<Sample>& rows) {
  const auto tokens = golden.read<int32_t>("source_tokens");
  const auto lengths = golden.read<int32_t>("source_rows");
  auto token = tokens.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].source_tokens.assign(token, token + lengths[i]);
    rows[i].source_lengths = {lengths[i]};
    token += lengths[i];
  }
}

std::vector<Sample> rows_of(const GoldenFile& golden) {
  const auto tokens = golden.read<int32_t>("tokens"), targets = golden.read<int32_t>("targets");
  const auto labels = golden.read<int32_t>("labels");
  const bool has_images = golden.file.entries().count("patches") > 0;
  std::vector<int32_t> types(tokens.size(), 0);
  std::vector<float> patches;
  if (has_images) {
    types = golden.read<int32_t>("token_types");
    patches = golden.read<float>("patches");
  }
  const size_t width = patches.size() / tokens.size();
  std::vector<Sample> rows;
  auto token = tokens.begin(), target = targets.begin();
  for (const int32_t length : golden.read<int32_t>("rows")) {
    Sample row;
    row.tokens.assign(token, token + length);
    row.targets.assign(target, target + length);
    const auto first = token - tokens.begin(), w = static_cast<std::ptrdiff_t>(width);
    row.token_types.assign(types.begin() + first, types.begin() + first + length);
    row.patches.assign(patches.begin() + first * w, patches.begin() + (first + length) * w);
    row.document_lengths = {length};
    row.labels = {labels[rows.size()]};
    token += length;
    target += length;
    rows.push_back(row);
  }
  if (golden.file.entries().count("source_tokens") > 0) add_sources(golden, rows);
  return rows;
}

class HuggingFaceGradients : public HuggingFaceFolder,
                             public testing::WithParamInterface<const char*> {};

/// Runs forward and backward on `rows`; returns the loss.
double train(Model& model, const ModelConfig& config, const std::vector<Sample>& rows) {
  const bool classifies = config.head == Head::classification;
  BatchBuffers buffers(batch_shape(std::ssize(rows), traits_of(config)));
  double targets = 0.0;
  for (const Sample& row : rows) {
    Sample taken = row;
    if (classifies) std::ranges::fill(taken.targets, kIgnoreTarget);
    targets += static_cast<double>(
        std::ranges::count_if(row.targets, [](int32_t target) { return target >= 0; }));
    buffers.append(taken, config.vocab_size, "golden", 0);
  }
  if (classifies) targets = static_cast<double>(rows.size());
  Arena arena(kCpu, size_t{8} << 20);
  const OwnedTensor sums({LossSums::kCount}, DType::f64);
  fill(sums.tensor, 0.0);
  const auto weight = static_cast<float>(1.0 / targets);
  model.train(StepContext{arena}, buffers.batch(), {weight, weight}, {sums.tensor});
  return sums.tensor.span<double>()[classifies ? 2 : 0] / targets;
}

/// Likewise with a contrastive loss; `rows` are an anchor, its positive, the next anchor, and so
/// on.
double train_embeddings(Model& model, const ModelConfig& config, const std::vector<Sample>& rows) {
  BatchBuffers buffers({std::ssize(rows), config.seq_length});
  for (Sample row : rows) {
    std::ranges::fill(row.targets, kIgnoreTarget);
    buffers.append(row, config.vocab_size, "golden", 0);
  }
  const int64_t samples = std::ssize(rows) / 2;
  Arena arena(kCpu, size_t{8} << 20);
  const OwnedTensor sum({1}, DType::f64);
  fill(sum.tensor, 0.0);
  const TokenBatch batch = buffers.batch();
  const auto length = static_cast<float>(std::sqrt(config.similarity_scale));
  const Tensor embeddings = model.embed(StepContext{arena}, batch, length);
  const Tensor gradient = arena.allocate(embeddings.shape(), DType::f32);
  ContrastiveLoss(kCpu, samples, 2, config.symmetric_loss)
      .loss_and_gradient(arena, embeddings, {0, samples}, 1.0f / static_cast<float>(samples),
                         sum.tensor, gradient);
  model.embed_backward(StepContext{arena}, batch, gradient);
  return sum.tensor.span<double>()[0] / static_cast<double>(samples);
}

TEST_P(HuggingFaceGradients, MatchFloat64) {
  const fs::path folder = test::source_folder() / "tests/parity/classes" / GetParam();
  const GoldenFile golden(folder / "gradients.safetensors");
  const std::string step = import_folder(folder, "imported").checkpoint.string();
  const ModelConfig config = model_from_json(Checkpoint::open(step).manifest().model);
  for (const int ranks : {1, 4}) {  // of two groups of heads, two ranks have none
    const std::string run = fmt::format("gradients{}", ranks);
    double loss = 0.0;
    run_thread_ranks(ranks, [&](Communicator& tp) {
      ParameterStore store;
      Model model(config, store, tp);
      store.allocate(kCpu, DType::f32, StoreFor::training);
      Checkpoint checkpoint = Checkpoint::open(step);
      load_weights(checkpoint, store);
      const bool embeds = config.head == Head::embedding;
      const double mine = embeds ? train_embeddings(model, config, rows_of(golden))
                                 : train(model, config, rows_of(golden));
      if (tp.rank() == 0) loss = mine;
      Arena arena(kCpu, size_t{1} << 20);
      PartialGradients(store, tp).sum(arena);
      save_store(run, config, store, &Parameter::grad, tp);
    });
    // Scores of embeddings are cosines times similarity_scale, and so are their roundings.
    const double scale = config.head == Head::embedding ? config.similarity_scale : 1.0;
    EXPECT_NEAR(loss, golden.read<float>("loss")[0], std::max(1e-6, 0x1p-22 * scale));
    const fs::path out = export_run(folder_ / run, run + "_out");
    const FileTensors ours = read_tensors(out / "model.safetensors");
    // A key's bias has no gradient, only rounding errors of others.
    float largest = 0.0f;
    for (const auto& [name, tensor] : ours) {
      for (const float x : tensor.values) largest = std::max(largest, std::abs(x));
    }
    size_t compared = 0;
    for (const auto& [name, entry] : golden.file.entries()) {
      if (name.rfind("grad/", 0) != 0) continue;
      const std::string plain = name.substr(5);
      ASSERT_TRUE(ours.count(plain)) << plain;
      const auto expected = golden.read<float>(name);
      const auto& actual = ours.at(plain).values;
      ASSERT_EQ(actual.size(), expected.size()) << plain;
      float of_tensor = 0.0f;
      for (const float x : expected) of_tensor = std::max(of_tensor, std::abs(x));
      // Sums of some hundred products in fp32, three layers deep.
      // Those of embeddings are also differences that nearly cancel.
      const float room = config.head == Head::embedding ? 5.0f : 1.0f;
      const float tolerance = room * (1e-5f * of_tensor + 1e-6f * largest);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance) << plain << " " << i;
      }
      ++compared;
    }
    EXPECT_EQ(compared, ours.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, HuggingFaceGradients,
                         testing::Values("llama", "llama_biases", "mistral", "qwen2", "qwen3",
                                         "qwen3_biases", "roberta", "roberta_classifier",
                                         "modernbert", "modernbert_classifier",
                                         "modernbert_mean_classifier", "bert_embedding", "t5",
                                         "t5_v1_1", "vit"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace tessera
