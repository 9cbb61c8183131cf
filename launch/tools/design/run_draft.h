#pragma once

#include <cstdint>
#include <filesystem>

#include "core/dtype.h"
#include "launch/config/run_config.h"
#include "launch/tools/design/scaling.h"

namespace tessera {

/// The files of a designed run, in one folder.
struct DesignFiles {
  std::filesystem::path folder;

  std::filesystem::path config() const { return folder / "train.yaml"; }
  std::filesystem::path tokenizer() const { return folder / "tokenizer"; }
  // Prefixes of datasets: what the model learns, and what it is evaluated on.
  std::filesystem::path data() const { return folder / "data"; }
  std::filesystem::path held_out() const { return folder / "held_out"; }
  std::filesystem::path run() const { return folder / "run"; }
};

/// Decisions of a design. Everything else has its default.
struct RunDraft {
  ModelSize size = {};
  int64_t seq_length = 128;
  double dropout = 0.0;
  DType precision = DType::f32;
  int64_t batch = 0;  ///< sequences, a multiple of the ranks
  int64_t steps = 1;
  double eval_fraction = 0.1;  ///< of the text: held_out()
  int64_t eval_batches = 1;

  int64_t batch_tokens() const { return batch * seq_length; }
  int64_t eval_interval() const;  ///< in steps
  int64_t warmup_steps() const;
};

/// Evaluations of a run, unless it has fewer steps.
inline constexpr int64_t kDesignEvaluations = 10;

/// The draft as a configuration whose vocabulary and micro-batch are derived.
RunConfig config_of(const RunDraft& draft, const DesignFiles& files);

}  // namespace tessera
