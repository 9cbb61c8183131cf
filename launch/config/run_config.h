#pragma once

#include <functional>
#include <set>
#include <string>

#include "launch/config/augmentation_options.h"
#include "launch/config/masking_options.h"
#include "launch/config/sections.h"
#include "launch/config/span_corruption_options.h"

namespace tessera {

/// One run: the contents of a YAML file. A default-constructed RunConfig lacks the required keys.
struct RunConfig {
  RunSection run;
  ModelConfig model;
  DataSection data;
  MaskingOptions mlm;                     ///< masked LM
  SpanCorruptionOptions span_corruption;  ///< encoder–decoders on prepared datasets
  AugmentationOptions augmentation;       ///< images
  ParallelSection parallel;
  BatchSection batch;
  TrainSection train;
  OptimizerSection optimizer;
  EvalSection eval;
  CheckpointSection checkpoint;
  LogSection log;
  /// Full names of the keys that are to be derived from the data, from a checkpoint or from the
  /// machine (launch/train/start/derive_config.h). Their members have no meaning until then.
  std::set<std::string, std::less<>> automatic;

  StepOptions step_options() const {
    return {model,
            parallel,
            batch,
            train,
            optimizer,
            run.precision,
            static_cast<uint64_t>(run.seed),
            log.noise_scale_interval};
  }
  GridShape grid_shape() const { return parallel.grid_shape(); }

  bool operator==(const RunConfig&) const = default;
};

/// Whether the run saves by time, too, and not only after its last step.
inline bool saves_by_time(const RunConfig& config) {
  return config.automatic.contains("checkpoint.interval");
}

}  // namespace tessera
