#pragma once

#include <memory>

#include "launch/config/run_config.h"
#include "launch/train/trainer.h"
#include "parallel/process_grid.h"
#include "tests/bench/random_samples.h"

namespace tessera::bench {

/// GPT-2 124M: 4 sequences of 256 tokens, one micro-batch, a vocabulary of 50257, no dropout.
RunConfig gpt2_124m(DType precision);

/// nanoGPT's small model for Shakespeare on a CPU: 4 layers, 128 wide, 12 sequences of 64 bytes.
RunConfig gpt_shakespeare(DType precision);

/// A third of BERT base: 4 layers, 768 wide, 8 sequences of `seq_length` tokens in one micro-batch,
/// a vocabulary of 30522, next sentence prediction, dropout of 0.1.
RunConfig bert_4x768(DType precision, int64_t seq_length);

/// BERT base; otherwise like bert_4x768(), without next sentence prediction.
RunConfig bert_base(DType precision, int64_t seq_length);

/// A Llama of 100 million weights: 12 layers, 768 wide, 4 key-value heads for 12 heads, a
/// vocabulary of 32000; 4 sequences of 256 tokens.
RunConfig llama_100m(DType precision);

/// ModernBERT base: 22 layers, 768 wide, a vocabulary of 50368; 8 sequences of up to `seq_length`
/// tokens.
RunConfig modernbert_base(DType precision, int64_t seq_length);

/// T5 small: 6 and 6 layers, 512 wide, a vocabulary of 32128; 8 pairs of up to `length` tokens
/// each.
RunConfig t5_small(DType precision, int64_t length);

/// ViT base: 12 layers, 768 wide, 4 images of 224 × 224 pixels in patches of 16 × 16, 1000 classes.
RunConfig vit_base(DType precision);

/// Like configs/bert_tiny.yaml: 4 layers, 128 wide, 16 sequences of 64 tokens, a vocabulary of
/// 2048, no dropout.
RunConfig bert_tiny(DType precision);

/// The positions of one micro-batch.
int64_t rows_of(const RunConfig& config);

/// The share of positions with a loss: all for GPT, 15% for BERT.
double target_share(const RunConfig& config);

/// A trainer of one rank with all threads, on random samples.
class BenchRun {
 public:
  explicit BenchRun(const RunConfig& config, Lengths lengths = Lengths::full);

  StepResult step() {
    trainer_->step();
    return trainer_->result();
  }
  const Trainer& trainer() const { return *trainer_; }

 private:
  std::unique_ptr<Communicator> world_;
  ParallelGroups groups_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace tessera::bench
