#pragma once

#include <cstdint>
#include <memory>

#include "launch/checkpoint/find.h"
#include "launch/config/run_config.h"
#include "launch/config/write_config.h"
#include "launch/data/training_data.h"
#include "launch/tokenizers/tokenizer.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The state from which a run continues, for train.epochs.
struct RunPosition {
  int64_t steps = 0, samples = 0;  ///< done
  int64_t all_steps = 0;           ///< train.steps as before for the same epochs; 0: not known
};

/// A configuration whose automatic keys have been derived.
struct DerivedConfig {
  RunConfig config;
  KeyOrigins origins;  ///< of the derived keys; on the first rank
  /// The tokenizer of data.tokenizer: auto; otherwise null. The key stays automatic, because a
  /// run's checkpoints keep the tokenizer wherever the run is moved.
  std::shared_ptr<const Tokenizer> tokenizer;
  RunPosition position = {};
};

/// A plan needs no tokenizer if model.vocab_size is given.
enum class DeriveFor : uint8_t { training, planning };

/// Derives all automatic keys, except batch.micro of a new run (launch/train/memory/micro_batch.h),
/// run.walltime, which is of one start (launch/train/walltime_limit.h), and train.steps, for which
/// the data must be open (derive_steps).
/// Values come, in this order, from the start of the run, if run.dir has checkpoints; from
/// checkpoint.from; and from the data. Calls `report` for each damaged checkpoint that it skipped.
/// Throws, naming the key, if a value cannot be found. Reads files, but no tokens.
DerivedConfig derive_config(const RunConfig& config, int64_t world_size, DeriveFor purpose,
                            const ReportSkipped& report = warn_of_skipped);

/// As above for training, on every rank of a run: only the first derives and reports. Collective.
DerivedConfig derive_config(const RunConfig& config, Communicator& world,
                            const ReportSkipped& report);

/// With train.epochs: sets train.steps from the training data. Throws if the config gives other
/// steps, too, or if the data is a blend.
void derive_steps(DerivedConfig& derived, const TrainingData& data);

}  // namespace tessera
