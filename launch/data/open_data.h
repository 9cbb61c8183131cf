#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/data/sample.h"
#include "launch/data/sampling/data_split.h"
#include "launch/data/train_parts.h"
#include "launch/support/same_on_ranks.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The data of a run.
struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  ///< may be null
  /// What the datasets' tokens mean, which checkpoints keep; null in a test that needs none.
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TrainPart> train_parts = {};  ///< what `train` is made of, in order
  /// What tells this data from other data under the same paths: one value for each dataset, and the
  /// tokenizer.
  std::vector<NamedValue> identity = {};
  std::vector<std::string> notes = {};  ///< what a person should know of it, in sentences
};

/// Opens the datasets that the config names, as samples of the kind that its model learns from,
/// those that are blended as one. What is held out for a test is opened too, so that it is known to
/// be whole, and closed again. Throws if datasets are missing, damaged or too short, if the
/// tokenizer lacks what the model needs, or if another one made a dataset.
TrainingData open_data(const RunConfig& config);

/// A part of the data of a config.
struct OpenedPart {
  std::shared_ptr<const Dataset> samples;
  std::vector<std::string> notes = {};  ///< as TrainingData::notes
};

/// Opens one part as a run of this config would, with the same masks: of `eval`, data.eval or what
/// data.eval_fraction holds out; those of a blend, of `train` too, in their natural order. Tokens
/// mean what `tokenizer`, a checkpoint's, says, whatever data.tokenizer is. Throws as open_data,
/// and if the config has no such part.
OpenedPart open_part(RunConfig config, std::shared_ptr<const Tokenizer> tokenizer, DataPart part);

}  // namespace tessera
