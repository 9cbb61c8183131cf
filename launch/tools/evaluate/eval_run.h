#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/data/sampling/data_split.h"
#include "launch/metrics/evaluation.h"
#include "launch/support/text/json.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct EvalOptions {
  std::string checkpoint;           ///< a run's folder, or a step's
  std::optional<std::string> data;  ///< a dataset's prefix, or a file of labelled texts
  DataPart part = DataPart::eval;   ///< of the config's data, where there is no `data`
  /// How samples are made; else the config.yaml of the checkpoint's run, or the defaults.
  std::optional<std::string> config;
  std::vector<std::string> overrides;  ///< of the config's keys
  int64_t tensor = 1;                  ///< ranks that share one replica
  int64_t micro_batch = 8;             ///< samples of a data rank at once
  std::optional<int64_t> max_samples;  ///< the first so many; else all
  DeviceChoice device = DeviceChoice::automatic;
  Backend backend = Backend::automatic;
  std::optional<std::string> dump;  ///< a safetensors file of what was evaluated
};

/// What a checkpoint's model is worth on some data.
struct EvalReport {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  int64_t samples = 0;
  bool predicts_masked = false;  ///< BERT's losses are of masked tokens
  Evaluation found;
  /// Of the text that the predicted tokens stand for: exact where a token is some bytes, else by
  /// the dataset's metadata. Nothing where neither is known, and for BERT.
  std::optional<double> bits_per_byte;
  double seconds = 0.0;
  std::vector<std::string> notes;  ///< what a person should know of the data, in sentences
};

/// Evaluates a checkpoint's weights in fp32, with samples in their natural order and as they are in
/// epoch 0, so that every evaluation sees the same on any layout. Throws on all ranks or none.
/// Collective.
EvalReport run_eval(const EvalOptions& options, Communicator& world);

/// For people, in two lines.
std::string to_string(const EvalReport& report);

Json to_json(const EvalReport& report);

}  // namespace tessera
