#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/config/write_config.h"
#include "launch/support/input/input_files.h"
#include "launch/tools/design/run_draft.h"
#include "launch/tools/design/step_speed.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

struct DesignOptions {
  InputOptions input = {};  ///< of files, which are read twice
  double minutes = 0.0;     ///< that `tessera train` may take on these ranks
  DesignFiles files = {};   ///< in a folder that does not exist yet
  /// Called with each candidate's speed and why the search ends, on rank 0.
  std::function<void(const std::string& line)> report = {};
};

/// A model that was measured.
struct DesignCandidate {
  ModelSize size = {};
  TrainingAmount amount = {};      ///< in the given time
  double tokens_per_second = 0.0;  ///< of all ranks
  double expected_loss = 0.0;      ///< to compare with other candidates; see scaling.h
};

/// A run that makes good use of a text and of some minutes on this machine.
struct RunDesign {
  int64_t text_bytes = 0;
  int64_t text_tokens = 0;  ///< with what is held out
  int64_t vocab_size = 0;
  std::vector<DesignCandidate> candidates;
  size_t chosen = 0;  ///< the candidate
  RunDraft draft = {};
  StepSpeed speed = {};     ///< of the draft
  double bf16_gain = 0.0;   ///< of a CPU: its speed in bf16 / its speed in fp32
  double seconds = 0.0;     ///< predicted for the whole run, with evaluations
  RunConfig config = {};    ///< of the draft
  KeyOrigins reasons = {};  ///< of the keys that config.yaml sets
};

/// Trains a tokenizer on the text and prepares a dataset; measures models of growing size until the
/// expected loss in the given time rises; and writes the files, on rank 0. Throws on all ranks or
/// none, also if the folder exists, and leaves no folder behind then. Collective.
RunDesign design_run(const DesignOptions& options, Communicator& world);

/// A few lines for people.
std::string to_string(const RunDesign& design);

}  // namespace tessera
