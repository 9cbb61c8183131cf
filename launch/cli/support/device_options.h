#pragma once

#include <CLI/CLI.hpp>

#include "launch/devices/open_devices.h"

namespace tessera {

/// --device and --backend of compute commands without a configuration; like run.device and
/// parallel.backend. `options` must live until the command line has been parsed.
void add_device_options(CLI::App& command, DeviceRequest& options);

}  // namespace tessera
