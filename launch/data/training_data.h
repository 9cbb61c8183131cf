#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/data/datasets/choice_dataset.h"
#include "launch/data/eval_datasets.h"
#include "launch/data/sample.h"
#include "launch/data/sampling/data_split.h"
#include "launch/data/sampling/sample_order.h"
#include "launch/support/same_on_ranks.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The data of a run.
struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  ///< eval.batches of it, spread evenly; may be null
  /// Defines the datasets' tokens and is saved in checkpoints; null in tests that do not need it.
  std::shared_ptr<const Tokenizer> tokenizer;
  /// Form of the messages of the training data; null if it has none.
  std::shared_ptr<const ChatForm> chat = {};
  std::vector<TrainPart> train_parts = {};  ///< the parts of `train`, in order
  /// The datasets of `eval`, in the order of Sample::dataset; empty without `eval`.
  std::vector<EvalDataset> eval_datasets = {};
  /// The files of eval.multiple_choice.
  std::vector<std::shared_ptr<const ChoiceDataset>> choices = {};
  /// Distinguishes this data from other data at the same paths: one value for each dataset, and the
  /// tokenizer.
  std::vector<NamedValue> identity = {};
  std::vector<std::string> notes = {};  ///< sentences for the user
};

/// Opens the datasets of a config as samples for its model's objective, and blends them. Also opens
/// held-out test data, to check it, and closes it again. `tokenizer` is that of data.tokenizer:
/// auto; null opens the one that data.tokenizer names. Without a tokenizer, data.special_tokens
/// replaces the special tokens of a dataset or checkpoint. Throws if datasets are missing, damaged
/// or too short, if the tokenizer lacks what the model needs, or if another tokenizer made a
/// dataset.
TrainingData open_training_data(const RunConfig& config,
                                std::shared_ptr<const Tokenizer> tokenizer = nullptr);

/// A part of the data of a config.
struct OpenedPart {
  std::shared_ptr<const Dataset> samples;
  std::vector<EvalDataset> datasets = {};  ///< in the order of Sample::dataset
  std::vector<std::string> notes = {};     ///< see TrainingData::notes
};

/// Opens one part as a run of this config would, with the same masks. `eval` is data.eval or the
/// data held out by data.eval_fraction. Samples of a blend, even of `train`, are in natural order.
/// `tokenizer`, from a checkpoint, takes precedence over data.tokenizer. Throws as
/// open_training_data() does, and if the config has no such part.
/// At most `most` samples, spread evenly over the part.
OpenedPart open_part(RunConfig config, std::shared_ptr<const Tokenizer> tokenizer, DataPart part,
                     std::optional<int64_t> most = {});

}  // namespace tessera
