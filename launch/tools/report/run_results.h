#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/tools/report/run_record.h"

namespace tessera {

/// A key whose values differ between runs.
struct KeyDifference {
  std::string key;
  std::vector<std::optional<std::string>> values;  ///< of each run; nullopt: it has no such key
};

/// In the order of the keys in the runs.
std::vector<KeyDifference> key_differences(const std::vector<RunRecord>& runs);

/// The results of a run in numbers; nullopt for what was not measured.
struct RunResults {
  std::optional<RunPoint> eval_loss;  ///< the lowest; of the averaged weights if the run has them
  std::optional<RunPoint> loss;       ///< the last finite one
  std::optional<RunPoint> accuracy;   ///< the highest of an evaluation: of labels, or of tokens
  std::optional<double> tokens_per_second, mfu;  ///< medians
  /// The last accuracy of each file of multiple-choice questions, by its name: eval_NAME_acc.
  std::vector<std::pair<std::string, double>> choices;
};

/// Whether `key` is the accuracy of a file of multiple-choice questions.
bool is_choice_accuracy(const RunRecord& run, const std::string& key);

RunResults results_of(const RunRecord& run);

/// At most about `most` points of `series`, at least 4: the first, the last, and of each part of
/// equal length the smallest, the largest and, if there is one, a value that was not finite.
RunSeries thinned(const RunSeries& series, size_t most);

/// Short names that tell the runs apart: the last parts of their paths.
std::vector<std::string> short_names(const std::vector<RunRecord>& runs);

}  // namespace tessera
