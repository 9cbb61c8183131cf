#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/support/text/json.h"
#include "launch/tools/prove/leaks.h"
#include "launch/train/gathered_run.h"

namespace tessera {

/// A layout of a small run, and how much its results may differ from those of one rank.
struct ProvedLayout {
  int tensor = 1;
  int data = 1;
  int context = 1;
  int64_t zero = 0;
  int64_t shard = 0;  ///< data ranks that share the shards; 0: all
  bool sequence = false;
  DType precision = DType::f32;

  int ranks() const { return tensor * data * context; }
};

/// "tensor 2, data 2, zero 1, sequence true, bf16"
std::string to_string(const ProvedLayout& layout);

/// One comparison.
struct Check {
  std::string what;                    ///< "tensor 2, data 1, ...: equals one rank"
  std::optional<std::string> failure;  ///< how it differs
};

/// Findings of `tessera prove`.
struct Certificate {
  RunConfig small;                    ///< the run that was checked
  std::vector<std::string> left_out;  ///< what it lacks, in sentences
  double first_loss = 0.0, last_loss = 0.0;
  std::vector<Check> checks;
  LeakReport masks;  ///< of one rank
  double seconds = 0.0;

  int64_t failures() const;
};

struct ProveOptions {
  int ranks = 4;                                  ///< the most ranks of a layout
  std::filesystem::path folder;                   ///< an empty folder for data and checkpoints
  std::function<void(const Check&)> report = {};  ///< called after each check
  RunRanks run_ranks = {};                        ///< the default is run_thread_ranks()
};

/// The layouts of up to `ranks` ranks on which `small` can run, except a single rank.
std::vector<ProvedLayout> layouts_to_prove(const RunConfig& small, int ranks);

/// Shrinks `config` (shrink.h) and trains it for a few steps on every layout of up to `ranks`
/// ranks, which are threads. Compares losses, gradients, updated weights and an evaluation with
/// those of one rank in fp32 and, if run.precision is bf16, in bf16; resumes on another layout and
/// on the same one; and searches for leaks through the masks. Throws if the small run is invalid.
Certificate prove(const RunConfig& config, const ProveOptions& options);

/// The certificate as text.
std::string to_string(const Certificate& certificate);
Json to_json(const Certificate& certificate);

}  // namespace tessera
