#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/chat_format.h"
#include "launch/data/sampling/data_split.h"
#include "launch/devices/open_devices.h"
#include "launch/metrics/evaluation.h"
#include "launch/support/text/json.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct EvalOptions {
  std::string checkpoint;           ///< a run's folder, or a step's
  bool ema = false;                 ///< evaluate its averaged weights
  std::optional<std::string> data;  ///< a dataset's prefix, or a file of labeled texts
  DataPart part = DataPart::eval;   ///< of the config's data, without `data`
  /// Defines how samples are made; by default the config.yaml of the checkpoint's run, or the
  /// default values.
  std::optional<std::string> config;
  std::vector<std::string> overrides;  ///< of the config's keys
  int64_t tensor = 1;                  ///< ranks that share one replica
  int64_t micro_batch = 8;             ///< samples of a data rank at once
  std::optional<int64_t> max_samples;  ///< spread evenly; by default all
  DeviceRequest devices = {};
  DType precision = DType::f32;     ///< of weights and activations
  std::optional<std::string> dump;  ///< a safetensors file of what was evaluated
  /// Files of questions to answer instead of evaluating data.
  std::vector<std::string> multiple_choice;
  std::optional<std::string> log_likelihoods;  ///< a file of texts to score instead
  std::optional<std::string> log_samples;      ///< a .jsonl file of the answers or scores
  bool overwrite = false;                      ///< whether it may replace a file
  std::optional<ChatFormat> chat;              ///< of messages in `log_likelihoods`
};

/// Amount of a file of texts that was scored.
struct ScoredTexts {
  int64_t lines = 0;
  int64_t tokens = 0;  ///< that were predicted
};

/// The results of evaluating a checkpoint's model on some data.
struct EvalReport {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  bool ema = false;  ///< of the averaged weights
  DType precision = DType::f32;
  int64_t samples = 0;
  bool predicts_masked = false;            ///< BERT's losses are of masked tokens
  bool token_labels = false;               ///< tokens' losses are of words' labels
  bool compares_texts = false;             ///< documents have no labels, but embeddings
  Evaluation found;                        ///< only `choices` with EvalOptions::multiple_choice
  std::optional<ScoredTexts> scored = {};  ///< with EvalOptions::log_likelihoods, only this
  double seconds = 0.0;
  std::vector<std::string> label_names;  ///< of a head that classifies; empty: numbers
  std::vector<std::string> notes;        ///< sentences about the data for the user
};

inline constexpr const char* kEvalMemoryAdvice =
    "choose a smaller --micro-batch or --precision bf16, or a larger --tensor to split the model "
    "over more ranks";

/// Throws if options of data, of questions (answer_questions()) and of texts to score
/// (score_texts()) are given together.
void check_files(const EvalOptions& options);

/// Evaluates a checkpoint's weights, with samples in their natural order and as in epoch 0,
/// so that every evaluation sees the same on any layout.
/// Throws on all ranks or none. Collective.
EvalReport run_eval(const EvalOptions& options, Communicator& world);

/// A summary of two lines, and one of the datasets of a blend; of questions, a line per file after
/// the first.
std::string to_string(const EvalReport& report);

Json to_json(const EvalReport& report);

}  // namespace tessera
