#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch/config/run_config.h"
#include "launch/config/write_config.h"
#include "launch/data/training_data.h"
#include "launch/devices/opened_ranks.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// A run's configuration, without automatic keys except batch.micro of a new run, and its data.
struct RunInputs {
  RunConfig config;
  KeyOrigins origins;  ///< of derived keys; on the first rank
  TrainingData data;
};

/// Reads a configuration with `load` on every rank, derives its automatic keys, checks it and opens
/// its data. Throws on all ranks or none, also if ranks have different ones. Reads files and writes
/// none. Collective.
RunInputs open_run_inputs(Communicator& world, const std::function<RunConfig()>& load);

/// The peak that MFU is relative to.
struct Peak {
  std::optional<double> flops;  ///< per second, of all GPUs together
  std::string note;             ///< its source if it is not a data sheet, otherwise ""
};

/// The devices that a run asks for.
DeviceRequest device_request(const RunConfig& config);

/// A run on one rank with everything that its steps need: algorithms, micro-batch size and
/// trainer, whose weights are zero.
struct RunSetup {
  /// `ranks` must outlive this, and be opened with the same device, backend and tensor-parallel
  /// size. With `measures_peak`, rank 0 measures its GPU if no data sheet is known. Throws on all
  /// ranks or none. Collective.
  RunSetup(RunInputs opened, OpenedRanks& ranks, bool measures_peak);
  RunSetup(const RunSetup&) = delete;
  RunSetup& operator=(const RunSetup&) = delete;

  RunInputs inputs;
  Peak peak;
  std::optional<size_t> available;  ///< host memory before any rank allocated
  std::unique_ptr<Trainer> trainer;
};

}  // namespace tessera
