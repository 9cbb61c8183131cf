#include "tests/bench/bench_run.h"

#include "launch/train/start/start.h"
#include "models/architecture.h"

namespace tessera::bench {
namespace {

RunConfig without_dropout(DType precision) {
  RunConfig config;
  config.run.precision = precision;
  config.train.steps = 1000;
  return config;
}

}  // namespace

RunConfig gpt2_124m(DType precision) {
  RunConfig config = without_dropout(precision);
  config.model.num_layers = 12;
  config.model.hidden_size = 768;
  config.model.num_heads = 12;
  config.model.seq_length = 256;
  config.model.vocab_size = 50257;
  config.batch.global = 4;
  config.batch.micro = 4;
  return config;
}

RunConfig gpt_shakespeare(DType precision) {
  RunConfig config = without_dropout(precision);
  config.model.num_layers = 4;
  config.model.hidden_size = 128;
  config.model.num_heads = 4;
  config.model.seq_length = 64;
  config.model.vocab_size = 257;
  config.model.bias = Bias::none;
  config.batch.global = 12;
  config.batch.micro = 12;
  return config;
}

RunConfig bert_4x768(DType precision, int64_t seq_length) {
  RunConfig config;
  config.run.precision = precision;
  apply_preset(config.model, ModelKind::bert);
  config.model.num_layers = 4;
  config.model.hidden_size = 768;
  config.model.num_heads = 12;
  config.model.seq_length = seq_length;
  config.model.vocab_size = 30522;
  config.model.dropout = 0.1;
  config.model.attention_dropout = 0.1;
  config.model.token_types = 2;
  config.model.next_sentence = true;
  config.batch.global = 8;
  config.batch.micro = 8;
  config.train.steps = 1000;
  return config;
}

RunConfig bert_base(DType precision, int64_t seq_length) {
  RunConfig config = bert_4x768(precision, seq_length);
  config.model.num_layers = 12;
  config.model.next_sentence = false;
  return config;
}

RunConfig llama_100m(DType precision) {
  RunConfig config = without_dropout(precision);
  apply_preset(config.model, ModelKind::llama);
  config.model.num_layers = 12;
  config.model.hidden_size = 768;
  config.model.num_heads = 12;
  config.model.num_kv_heads = 4;
  config.model.mlp_size = 2048;
  config.model.seq_length = 256;
  config.model.vocab_size = 32000;
  config.model.tie_embeddings = true;
  config.batch.global = 4;
  config.batch.micro = 4;
  return config;
}

RunConfig modernbert_base(DType precision, int64_t seq_length) {
  RunConfig config = without_dropout(precision);
  apply_preset(config.model, ModelKind::modernbert);
  config.model.num_layers = 22;
  config.model.hidden_size = 768;
  config.model.num_heads = 12;
  config.model.mlp_size = 1152;
  config.model.attention_window = 65;
  config.model.seq_length = seq_length;
  config.model.vocab_size = 50368;
  config.batch.global = 8;
  config.batch.micro = 8;
  return config;
}

RunConfig t5_small(DType precision, int64_t length) {
  RunConfig config = without_dropout(precision);
  apply_preset(config.model, ModelKind::t5);
  config.model.num_layers = 6;
  config.model.hidden_size = 512;
  config.model.num_heads = 8;
  config.model.seq_length = length;
  config.model.source_length = length;
  config.model.vocab_size = 32128;
  config.batch.global = 8;
  config.batch.micro = 8;
  return config;
}

RunConfig vit_base(DType precision) {
  RunConfig config = without_dropout(precision);
  apply_preset(config.model, ModelKind::vit);
  config.model.head = Head::classification;
  config.model.num_labels = 1000;
  config.model.num_layers = 12;
  config.model.hidden_size = 768;
  config.model.num_heads = 12;
  config.model.image_size = 224;
  config.model.num_channels = 3;
  config.model.seq_length = config.model.image_tokens();
  config.model.vocab_size = 1;
  config.data.tokenizer = "none";
  config.batch.global = 4;
  config.batch.micro = 4;
  return config;
}

RunConfig bert_tiny(DType precision) {
  RunConfig config = without_dropout(precision);
  apply_preset(config.model, ModelKind::bert);
  config.model.num_layers = 4;
  config.model.hidden_size = 128;
  config.model.num_heads = 4;
  config.model.seq_length = 64;
  config.model.vocab_size = 2048;
  config.model.token_types = 2;
  config.batch.global = 16;
  config.batch.micro = 16;
  return config;
}

int64_t rows_of(const RunConfig& config) { return config.batch.micro * config.model.seq_length; }

double target_share(const RunConfig& config) {
  return traits_of(config.model).objective == Objective::masked_lm ? 0.15 : 1.0;
}

BenchRun::BenchRun(const RunConfig& config, Lengths lengths)
    : world_(make_self_communicator()), groups_(make_parallel_groups(*world_)) {
  const TrainingData data{std::make_shared<RandomSamples>(config, lengths), nullptr, nullptr};
  trainer_ = std::make_unique<Trainer>(config, groups_, data);
  trainer_->initialize();
}

}  // namespace tessera::bench
