#include "launch/cli/support/device_options.h"

#include "launch/cli/support/command_line.h"

namespace tessera {

void add_device_options(CLI::App& command, DeviceOptions& options) {
  add_choice(
      command, "--device", options.device,
      {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}},
      "Where to compute; auto uses GPUs if there are any");
  add_choice(command, "--backend", options.backend,
             {{"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"mpi", Backend::mpi}},
             "How GPUs of several ranks communicate; with mpi they can share a GPU");
  add_choice(command, "--precision", options.precision,
             {{"fp32", DType::f32}, {"bf16", DType::bf16}},
             "Precision of weights and activations; bf16 takes half the memory");
}

}  // namespace tessera
