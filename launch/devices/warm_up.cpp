#include "launch/devices/warm_up.h"

#include "core/checked.h"
#include "core/cuda/runtime.h"
#include "core/cuda/workspace.h"
#include "core/memory.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/matmul.h"
#include "launch/devices/attention_setup.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// The collectives of a training step, in the dtypes of gradients and activations.
void run_collectives(Communicator& group, Device device) {
  constexpr int64_t kElements = 256;  // of a rank
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const OwnedTensor all({group.size() * kElements}, dtype, device);
    const Tensor mine = all.tensor.slice(group.rank() * kElements, (group.rank() + 1) * kElements);
    group.all_reduce(all.tensor);
    group.reduce_scatter(all.tensor, mine);
    group.all_gather(mine, all.tensor);
  }
}

void run_libraries([[maybe_unused]] const RunConfig& config, [[maybe_unused]] Device device) {
  if constexpr (kHasCuda) {
    constexpr int64_t kSize = 64;
    const OwnedTensor x({kSize, kSize}, config.run.precision, device),
        w({kSize, kSize}, config.run.precision, device),
        y({kSize, kSize}, config.run.precision, device);
    linear_forward(x.tensor, w.tensor, {}, y.tensor);
    if constexpr (cuda::kHasCudnn) {
      if (!cuda::cudnn_attention_unsupported_reason(attention_setup(config))) {
        cuda::create_cudnn_handle();
      }
    }
    cuda::synchronize();
    cuda::release_workspace();  // which the memory plan counts
  }
}

}  // namespace

size_t free_bytes_after_warm_up([[maybe_unused]] const RunConfig& config,
                                [[maybe_unused]] const OpenedDevices& devices,
                                [[maybe_unused]] const ParallelGroups& groups) {
  size_t free_bytes = 0;
  if constexpr (kHasCuda) {
    if (!devices.device.is_cuda()) return 0;
    for (Communicator* group : groups.all()) run_collectives(*group, devices.device);
    all_or_none(groups.world, [&] { run_libraries(config, devices.device); });
    // Ranks that share a GPU have all warmed up here, and none allocates before all have asked.
    all_or_none(groups.world,
                [&] { free_bytes = cuda::device_info(devices.device.index).free_bytes; });
    // Ranks share GPUs evenly; some GPUs may have one rank more.
    free_bytes /= static_cast<size_t>(ceil_div(groups.world.size(), devices.gpus));
  }
  return free_bytes;
}

}  // namespace tessera
