#include "tests/bench/bench_run.h"

#include <vector>

#include "core/random.h"
#include "launch/data/indexed_dataset_writer.h"
#include "launch/train/open_data.h"
#include "launch/train/start.h"
#include "tests/support/test_folder.h"

namespace tessera::bench {
namespace {

void write_random_tokens(const std::string& prefix, int64_t count, int64_t vocab_size) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  const RandomKey key{1, RandomPurpose::sampling, 0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = random_bits(key, static_cast<uint64_t>(i));
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size));
  }
  IndexedDatasetWriter writer(prefix, {TokenType::u16});
  writer.append(tokens);
  writer.end_document();
  writer.finish();
}

RunConfig without_dropout(DType precision) {
  RunConfig config;
  config.run.precision = precision;
  config.model.dropout = 0.0;
  config.model.attention_dropout = 0.0;
  config.train.steps = 1000;
  return config;
}

}  // namespace

RunConfig gpt2_124m(DType precision) {
  RunConfig config = without_dropout(precision);
  config.model.seq_length = 256;
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
  config.model.bias = false;
  config.batch.global = 12;
  config.batch.micro = 12;
  return config;
}

int64_t rows_of(const RunConfig& config) { return config.batch.micro * config.model.seq_length; }

BenchRun::BenchRun(const RunConfig& base)
    : world_(make_self_communicator()), groups_(make_parallel_groups(*world_, 1)) {
  const test::TestFolder folder;  // the dataset stays mapped when its files are gone
  RunConfig config = base;
  config.run.dir = folder / "run";
  config.data.train = folder / "tokens";
  const int64_t step_tokens = config.batch.global * (config.model.seq_length + 1);
  write_random_tokens(config.data.train, 16 * step_tokens, config.model.vocab_size);
  trainer_ = std::make_unique<Trainer>(config, groups_, open_data(config));
  trainer_->initialize();
}

}  // namespace tessera::bench
