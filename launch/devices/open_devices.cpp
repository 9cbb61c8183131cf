#include "launch/devices/open_devices.h"

#include <vector>

#include "core/checked.h"
#include "core/cuda/runtime.h"
#include "core/error.h"
#include "launch/devices/device_plan.h"
#include "launch/devices/device_summary.h"
#include "parallel/cuda/staged_communicator.h"
#include "parallel/exchange.h"
#include "parallel/host_name.h"
#include "parallel/nccl/nccl_communicator.h"

namespace tessera {
namespace {

constexpr GpuBuild kBuild{kHasCuda, kHasNccl};

/// CUDA is asked only where the answer matters.
RankGpus find_gpus(DeviceChoice device) {
  RankGpus gpus;
  gpus.host = host_name();
  if constexpr (kHasCuda) {
    if (device == DeviceChoice::cpu) return gpus;
    const int found = cuda::device_count();
    if (found == 0) gpus.why_none = cuda::why_no_device();
    for (int i = 0; i < found; ++i) gpus.addresses.push_back(cuda::device_address(i));
  }
  return gpus;
}

DevicePlan agree_on_plan(DeviceChoice device, Backend backend, Communicator& world) {
  std::string mine;
  all_or_none(world, [&] { mine = to_string(find_gpus(device)); });
  std::vector<RankGpus> ranks;
  for (const std::string& text : all_gather_strings(world, mine)) {
    ranks.push_back(parse_rank_gpus(text));
  }
  DevicePlan plan;
  all_or_none(world, [&] { plan = plan_devices(device, backend, kBuild, ranks); });
  return plan;
}

/// bf16 on tensor cores came with it.
constexpr int kLeastComputeCapability = 8;

/// Makes this rank's GPU the calling thread's, and tells of everyone's, and how much of its own is
/// free before any rank allocates.
std::vector<RankGpu> use_gpus(const DevicePlan& plan, Communicator& world, size_t* free_bytes) {
  std::vector<RankGpu> gpus;
  if constexpr (kHasCuda) {
    std::string mine;
    all_or_none(world, [&] {
      const int index = plan.gpu_of_rank[static_cast<size_t>(world.rank())];
      cuda::use_device(index);
      const cuda::DeviceInfo info = cuda::device_info(index);
      require(info.major >= kLeastComputeCapability,
              "GPU {}, {}, has compute capability {}.{}, but Tessera's kernels need {}.0 or later: "
              "hide it with CUDA_VISIBLE_DEVICES, or compute with run.device=cpu",
              index, info.name, info.major, info.minor, kLeastComputeCapability);
      mine = to_string(RankGpu{info.name, info.total_bytes});
      *free_bytes = info.free_bytes;
    });
    for (const std::string& text : all_gather_strings(world, mine)) {
      gpus.push_back(parse_rank_gpu(text));
    }
  }
  return gpus;
}

std::unique_ptr<Communicator> connect(const DevicePlan& plan, Communicator& world) {
  std::unique_ptr<Communicator> host = world.split(0, world.rank());
  if constexpr (kHasNccl) {
    if (plan.nccl) return make_nccl_communicator(std::move(host));
  }
  if constexpr (kHasCuda) {
    if (plan.on_gpus) return make_staged_communicator(std::move(host));
  }
  return host;
}

std::string transport_of(const DevicePlan& plan, const Communicator& world) {
  if constexpr (kHasNccl) {
    if (plan.nccl) return "NCCL " + nccl_version();
  }
  return world.name();
}

}  // namespace

OpenedDevices open_devices(DeviceChoice device, Backend backend, Communicator& world) {
  const DevicePlan plan = agree_on_plan(device, backend, world);
  OpenedDevices opened;
  opened.note = plan.note;
  std::vector<RankGpu> gpus;
  if (plan.on_gpus) {
    gpus = use_gpus(plan, world, &opened.free_bytes);
    opened.gpus = plan.gpus;
    // Ranks share GPUs evenly, but for one more on some.
    opened.free_bytes /= static_cast<size_t>(ceil_div(world.size(), plan.gpus));
    const int index = plan.gpu_of_rank[static_cast<size_t>(world.rank())];
    opened.device = {DeviceType::cuda, static_cast<int8_t>(index)};
  }
  opened.world = connect(plan, world);
  opened.summary = device_summary(plan, world.size(), gpus, transport_of(plan, *opened.world));
  return opened;
}

}  // namespace tessera
