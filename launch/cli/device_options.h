#pragma once

#include <CLI/CLI.hpp>

#include "launch/devices/open_devices.h"

namespace tessera {

/// --device and --backend of the commands that compute and have no configuration: as run.device and
/// parallel.backend there.
struct DeviceOptions {
  DeviceChoice device = DeviceChoice::automatic;
  Backend backend = Backend::automatic;

  /// See open_devices(). Collective.
  OpenedDevices open(Communicator& world) const { return open_devices(device, backend, world); }
};

/// `options` must live until the command line has been read.
void add_device_options(CLI::App& command, DeviceOptions& options);

}  // namespace tessera
