#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/metrics/step_result.h"
#include "launch/support/text/json.h"
#include "launch/train/diagnosis/document_losses.h"
#include "launch/train/diagnosis/layer_norms.h"
#include "launch/train/diagnosis/step_diagnosis.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct ReplayOptions {
  std::filesystem::path run;  ///< its folder
  int64_t step = 0;           ///< counted from 1
};

/// Values of a step in metrics.jsonl.
struct LoggedStep {
  double loss = 0.0;
  double grad_norm = 0.0;
};

/// A step of a run that was computed again.
struct ReplayReport {
  std::filesystem::path run;
  std::string start;   ///< "resumed from ..."
  int64_t steps = 0;   ///< computed before it
  std::string layout;  ///< "4 ranks = 2 data × 2 tensor"
  StepResult result;
  std::optional<LoggedStep> logged = {};
  std::optional<std::string> skipped = {};  ///< why it changed no weight: "its loss is NaN"
  std::optional<StepDiagnosis> diagnosis = {};
  std::vector<DocumentLoss> documents = {};
  std::vector<LayerNorms> layers = {};  ///< weights before the step; gradients before clipping

  /// Whether loss and gradient norm have the bits of metrics.jsonl.
  bool same_bits() const;
};

/// Computes a step of a run again, from the newest intact checkpoint before it, with the run's
/// config.yaml: on the same layout, devices and program it has the same bits. Reads the run's
/// folder and writes nothing, so the run may be running. Throws on all ranks or none. Collective.
ReplayReport run_replay(const ReplayOptions& options, Communicator& world);

/// The report as lines, with the documents that have the largest losses.
std::string to_string(const ReplayReport& report);

/// The report with all documents.
Json to_json(const ReplayReport& report);

}  // namespace tessera
