#pragma once

#include <CLI/CLI.hpp>

#include "launch/devices/open_devices.h"

namespace tessera {

/// --device and --backend of compute commands without a configuration; like run.device and
/// parallel.backend.
struct DeviceOptions {
  DeviceChoice device = DeviceChoice::automatic;
  Backend backend = Backend::automatic;

  /// See open_devices(). Collective.
  OpenedDevices open(Communicator& world) const { return open_devices({device, backend}, world); }
};

/// `options` must live until the command line has been parsed.
void add_device_options(CLI::App& command, DeviceOptions& options);

}  // namespace tessera
