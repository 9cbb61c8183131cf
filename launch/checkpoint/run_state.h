#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/checkpoint/format/manifest.h"
#include "launch/data/sampling/sample_order.h"
#include "launch/support/text/json.h"

namespace tessera {

/// What early stopping and the best checkpoint need to know of a run's evaluations.
struct EvaluationHistory {
  int64_t best_step = 0;  ///< of the lowest loss, the first of equals; 0: there was no evaluation
  double best_loss = 0.0;
  int64_t since_best = 0;  ///< evaluations after it

  void add(int64_t step, double loss);
  /// Whether these evaluations end a run early: so many in a row, or more, were no better than the
  /// best before them. A `patience` of 0 is no limit.
  bool exhausts(int64_t patience) const { return patience > 0 && since_best >= patience; }

  bool operator==(const EvaluationHistory&) const = default;
};

/// The averages of a gradient's noise scale (NoiseScale).
struct GradientNoise {
  double signal = 0.0, noise = 0.0;  ///< |G|² and tr(Σ)

  bool operator==(const GradientNoise&) const = default;
};

/// All that a checkpoint keeps of a run besides step, tensors and attachments. After an import,
/// only little of it is known.
struct RunState {
  // What the run trains on, to compare when it resumes.
  std::string tokenizer = {};  ///< as in data.tokenizer
  std::optional<int64_t> seed = {}, train_samples = {};
  std::vector<TrainPart> train_parts = {};  ///< in order; paths are not stored, as data may move
  std::optional<std::string> optimizer = {}, moment_dtype = {};  ///< of the optimizer's state
  std::string imported_from = {};
  /// By name, the GPU that saved it and the versions of its driver and libraries (gpu_versions);
  /// empty on CPUs.
  std::map<std::string, std::string> gpu_versions = {};

  // What the model learned.
  std::optional<std::string> labels = {};  ///< names, as in data.labels
  bool hides_targets = false;              ///< mlm.hide: attention
  bool truncate = false;                   ///< data.truncate
  /// With low-rank adapters: the other parameters that differ from the adapters' base model.
  std::set<std::string> trained_beside_adapters = {};

  // How far the run is.
  int64_t tokens = 0;  ///< without padding
  int64_t skipped_steps = 0, rollbacks = 0;
  std::vector<double> gradient_norms = {};  ///< that later ones are compared with
  std::optional<GradientNoise> noise_scale = {};
  EvaluationHistory evaluations = {};
  /// The last steps after which the model was evaluated and wrote samples.
  std::optional<int64_t> evaluated_step = {}, sampled_step = {};
  bool by_time = false;  ///< whether the checkpoint gives way to the next

  /// Whether `others`, a run's data.labels, differ from these or are in another order, so that the
  /// classifier's rows stand for other labels. False if either side has only numbers.
  bool has_other_labels(const std::optional<std::string>& others) const;
};

/// The manifest's `extra` data. Leaves out what is empty, 0 or false.
Json to_extra(const RunState& state);

/// Reads a manifest's `extra` data, without what another program wrote in another form. One of an
/// earlier version does not tell evaluated_step and sampled_step: they are the checkpoint's step.
RunState read_run_state(const Manifest& manifest);

/// [{"samples": samples, "share": share}, …]
Json to_json(const std::vector<TrainPart>& parts);

}  // namespace tessera
