#include "launch/cli/support/device_options.h"

#include "launch/cli/support/command_line.h"

namespace tessera {

void add_device_options(CLI::App& command, DeviceRequest& options) {
  add_choice(
      command, "--device", options.device,
      {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}},
      "Where to compute; auto uses GPUs if there are any");
  add_choice(command, "--backend", options.backend,
             {{"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"mpi", Backend::mpi}},
             "How GPUs of several ranks communicate; with mpi they can share a GPU");
}

}  // namespace tessera
