#pragma once

#include <memory>
#include <string>

#include "launch/config/run_config.h"
#include "launch/train/trainer.h"
#include "parallel/process_grid.h"

namespace tessera::bench {

/// GPT-2 124M: 4 sequences of 256 tokens, one micro-batch, a vocabulary of 50257, no dropout.
RunConfig gpt2_124m(DType precision);

/// nanoGPT's small model for Shakespeare on a CPU: 4 layers, 128 wide, 12 sequences of 64 bytes.
RunConfig gpt_shakespeare(DType precision);

/// Positions of one micro-batch.
int64_t rows_of(const RunConfig& config);

/// A trainer of one rank with all threads, on random tokens in a temporary folder.
class BenchRun {
 public:
  explicit BenchRun(const RunConfig& config);

  StepResult step() { return trainer_->step(); }
  const Trainer& trainer() const { return *trainer_; }

 private:
  std::unique_ptr<Communicator> world_;
  ParallelGroups groups_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace tessera::bench
