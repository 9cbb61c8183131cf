#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/metrics/model_sample.h"
#include "launch/support/same_on_ranks.h"
#include "launch/tools/attention/attention_report.h"

namespace tessera {

/// A value of a step. NaN if it was not finite.
struct RunPoint {
  int64_t step = 0;
  double value = 0.0;
};

/// In the order of steps, each of which occurs once.
using RunSeries = std::vector<RunPoint>;

/// Something that happened at a step.
struct RunEvent {
  enum class Kind : uint8_t { restart, rollback, skipped, warning, failure };

  Kind kind;
  int64_t step = 0;
  std::string text;  ///< a sentence without its full stop
};

/// A start of a run under `tessera supervise`.
struct RunStart {
  std::string time;        ///< "2026-11-25T17:05:00Z"
  int64_t step = 0;        ///< of the checkpoint that it continues
  std::string command;     ///< of the launcher
  std::string layout;      ///< that the supervisor chose before it, or ""
  std::string end;         ///< why it ended, in a sentence; "" while it runs
  double seconds = 0.0;    ///< how long it took, once it has ended
  int64_t saved_step = 0;  ///< of the newest checkpoint at its end
};

/// Attention of heads after a step.
struct RunAttention {
  int64_t step = 0;
  AttentionReport report;
};

/// The texts that the model wrote after a step.
struct RunSamples {
  int64_t step = 0;
  std::vector<ModelSample> texts = {};
};

/// Lines of a file that are left out because they are damaged.
struct DamagedLines {
  std::string file;
  int64_t count = 0;
  std::vector<std::string> examples = {};  ///< "line 7 is no JSON object", the first few

  void add(int64_t line, std::string_view what);
  /// "metrics.jsonl: 2 damaged lines are left out: line 7 is ..."; "" if there are none.
  std::string text() const;
};

/// Contents of a run's files.
struct RunRecord {
  static constexpr size_t kMostEvents = 500;  ///< of each kind
  static constexpr size_t kMostStarts = 1000;
  static constexpr size_t kMostSamples = 300;        ///< steps with samples
  static constexpr size_t kMostSampleBytes = 20000;  ///< of a prompt or text

  std::string path;                ///< as the user wrote it
  std::string config_text;         ///< config.yaml as it is; "" if it cannot be read
  std::vector<NamedValue> config;  ///< its keys: {"train.steps", "100"}
  std::map<std::string, RunSeries, std::less<>> series;  ///< by their keys in metrics.jsonl
  std::vector<RunEvent> events;                          ///< in the order of steps
  int64_t skipped_steps = 0, rollbacks = 0;              ///< of the whole run
  std::vector<RunStart> starts;                          ///< from supervise.jsonl
  std::vector<RunSamples> samples;                       ///< from samples.jsonl, by step
  std::optional<RunAttention> attention;                 ///< from attention.json
  int64_t last_step = 0;                                 ///< that was logged
  std::vector<std::string> problems;                     ///< sentences for the reader

  /// Null if there are no values.
  const RunSeries* find(std::string_view key) const;
  /// The value of a key of the configuration; nullopt if it is not there.
  std::optional<std::string> config_value(std::string_view key) const;
  /// train.steps, if known.
  std::optional<int64_t> total_steps() const;
  /// Whether the last step of the run is logged, or the evaluation after which eval.patience ends
  /// it. False if it is not known.
  bool has_finished() const;
};

/// Adds the lines of metrics.jsonl (launch/logging/metrics_log.h) to `record`. Leaves out damaged
/// lines, which are a problem of the record, and a last line without its end, which a run may be
/// writing.
void read_metrics(std::istream& lines, RunRecord& record);

/// As above, for supervise.jsonl (launch/tools/supervise/journal.h): starts and restarts.
void read_journal(std::istream& lines, RunRecord& record);

/// As above, for samples.jsonl. If there are more than kMostSamples steps, leaves out some between
/// the first and the last.
void read_samples(std::istream& lines, RunRecord& record);

/// Reads attention.json. A text that is no report is a problem of the record.
void read_attention(std::istream& file, RunRecord& record);

/// Reads the keys of a run's configuration, whatever version of this program wrote it. A text that
/// is no configuration is a problem of the record.
void read_keys(std::string_view name, std::string_view yaml, RunRecord& record);

/// Reads a run's folder. Throws if it is none or has no metrics.jsonl. A config.yaml that cannot be
/// read is a problem of the record; supervise.jsonl exists only for supervised runs, samples.jsonl
/// only for those with eval.prompts, and attention.json with log.attention_interval.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace tessera
