#include <gtest/gtest.h>

#include <vector>

#include "core/arena.h"
#include "launch/checkpoint/model_state.h"
#include "tests/launch/huggingface/fixture.h"
#include "tests/support/runs/random_batch.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace testing_interop;

class MupExport : public HuggingFaceFolder {};

/// All that the heads of a model compute of some tokens.
std::vector<double> logits_of(const fs::path& step) {
  Checkpoint checkpoint = Checkpoint::open(step);
  const ModelConfig config = model_from_json(checkpoint.manifest().model);
  const auto self = make_self_communicator();
  ParameterStore store;
  Model model(config, store, *self);
  store.allocate(test::test_device(), DType::f32, StoreFor::inference);
  load_weights(checkpoint, store);
  const test::RandomBatch texts(config, 2, 1);
  Arena arena(test::test_device(), size_t{4} << 20);
  const StepContext ctx{arena};
  if (config.head == Head::embedding) return test::to_doubles(model.embed(ctx, texts.batch));
  std::vector<double> logits;
  if (config.head == Head::pretraining) {
    logits = test::to_doubles(model.token_logits(ctx, texts.batch));
    if (!config.next_sentence) return logits;
  }
  for (const double x : test::to_doubles(model.label_logits(ctx, texts.batch))) {
    logits.push_back(x);
  }
  return logits;
}

// An import knows the functions of transformers' classes, which have no multipliers.
TEST_F(MupExport, WeightsHaveTheScalesOfMup) {
  const std::pair<const char*, ModelConfig> kModels[] = {
      {"gpt", small_gpt()},
      {"llama", small_llama()},
      {"qwen2", small_llama(ModelKind::qwen2)},
      {"qwen3", small_llama(ModelKind::qwen3)},
      {"roberta", small_encoder(ModelKind::roberta)},
      {"modernbert", small_encoder(ModelKind::modernbert)},
      {"modernbert_labels", small_encoder(ModelKind::modernbert, Head::classification)},
      {"bert_words", small_encoder(ModelKind::bert, Head::token_classification)},
      {"bert_mean", small_embeddings(ModelKind::bert, Pooling::mean)},
      {"t5", small_t5()},
      {"t5_gated", small_gated_t5()},
      {"pairs", small_pretraining()}};
  for (const auto& [name, standard] : kModels) {
    SCOPED_TRACE(name);
    ModelConfig model = standard;
    model.mup_base_hidden_size = 8;
    model.mup_base_head_dim = 3;
    const std::string run = save_model(name, model);
    const fs::path step = run + "/checkpoints/step_00000003";
    const std::string tag = name;
    const ImportReport report = import_folder(export_run(run, tag + "_out"), tag + "_back");
    EXPECT_EQ(Checkpoint::open(report.checkpoint).manifest().model, architecture_json(standard));
    // Two roundings of each weight, in sums of large scores.
    test::expect_close(logits_of(report.checkpoint), logits_of(step), 1e-3, "logits");
  }
}

}  // namespace
}  // namespace tessera
