#include "launch/cli/device_options.h"

#include <map>
#include <string>

namespace tessera {

void add_device_options(CLI::App& command, DeviceOptions& options) {
  const std::map<std::string, DeviceChoice> devices = {
      {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
  const std::map<std::string, Backend> backends = {
      {"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"mpi", Backend::mpi}};
  command
      .add_option("--device", options.device, "Where to compute: auto takes GPUs if there are any")
      ->transform(CLI::CheckedTransformer(devices))
      ->type_name("auto|cpu|cuda");
  command
      .add_option("--backend", options.backend,
                  "How several ranks' GPUs exchange tensors: mpi lets them share a GPU")
      ->transform(CLI::CheckedTransformer(backends))
      ->type_name("auto|nccl|mpi");
}

}  // namespace tessera
