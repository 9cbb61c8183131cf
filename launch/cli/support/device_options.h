#pragma once

#include <CLI/CLI.hpp>

#include "launch/devices/open_devices.h"

namespace tessera {

/// --device, --backend and --precision of compute commands without a configuration; like
/// run.device, parallel.backend and run.precision.
struct DeviceOptions : DeviceRequest {
  DType precision = DType::f32;  ///< of weights and activations
};

/// `options` must live until the command line has been parsed.
void add_device_options(CLI::App& command, DeviceOptions& options);

}  // namespace tessera
