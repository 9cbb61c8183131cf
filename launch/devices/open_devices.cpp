#include "launch/devices/open_devices.h"

#include <algorithm>
#include <vector>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "launch/devices/device_plan.h"
#include "launch/devices/device_summary.h"
#include "launch/devices/usable_gpus.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/nccl/nccl_communicator.h"
#include "parallel/communicators/nccl/nccl_environment.h"
#include "parallel/communicators/staged/staged_communicator.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

GpuBuild this_build() {
  GpuBuild build{kHasCuda, kHasNccl};
  if constexpr (kHasNccl) build.nccl_may_share = nccl_may_share_gpus();
  return build;
}

/// Queries CUDA only if the choice of device depends on it.
UsableGpus find_gpus(DeviceChoice device) {
  UsableGpus usable;
  if constexpr (kHasCuda) {
    if (device == DeviceChoice::cpu) return usable;
    std::vector<SeenGpu> seen;
    for (int i = 0; i < cuda::device_count(); ++i) {
      const cuda::DeviceInfo kind = cuda::device_kind(i);
      seen.push_back({kind.name, kind.major, kind.minor});
    }
    usable = usable_gpus(seen, cuda::compiled_architectures());
    if (seen.empty()) usable.why_not = cuda::no_device_reason().value_or("");
  }
  return usable;
}

RankGpus with_addresses(const UsableGpus& usable) {
  RankGpus gpus{host_name(), {}, usable.indices.empty() ? usable.why_not : ""};
  if constexpr (kHasCuda) {
    for (const int index : usable.indices) gpus.addresses.push_back(cuda::device_address(index));
  }
  return gpus;
}

/// Each rank's GPU is an index into the GPUs it `found`.
DevicePlan agree_on_plan(DeviceChoice device, Backend backend, Communicator& world,
                         UsableGpus& found) {
  std::string mine;
  all_or_none(world, [&] {
    found = find_gpus(device);
    mine = to_string(with_addresses(found));
  });
  std::vector<RankGpus> ranks;
  for (const std::string& text : all_gather_strings(world, mine)) {
    ranks.push_back(parse_rank_gpus(text));
  }
  DevicePlan plan;
  all_or_none(world, [&] { plan = plan_devices(device, backend, this_build(), ranks); });
  return plan;
}

/// Selects this rank's GPU for the calling thread. Returns the GPUs of all ranks.
std::vector<RankGpu> use_gpus([[maybe_unused]] int index, [[maybe_unused]] Communicator& world) {
  std::vector<RankGpu> gpus;
  if constexpr (kHasCuda) {
    std::string mine;
    all_or_none(world, [&] {
      cuda::use_device(index);
      const cuda::DeviceInfo info = cuda::device_info(index);
      require(cuda::has_kernels(),
              "GPU {}, {}, has compute capability {}.{}, and the driver finds no code for it in "
              "this build, which was built for {}: build with -DCMAKE_CUDA_ARCHITECTURES={}{}, or "
              "compute with run.device=cpu",
              index, info.name, info.major, info.minor, cuda::compiled_architectures(), info.major,
              info.minor);
      mine =
          to_string(RankGpu{info.name, info.total_bytes, host_name(), index, info.multiprocessors});
    });
    for (const std::string& text : all_gather_strings(world, mine)) {
      gpus.push_back(parse_rank_gpu(text));
    }
    // Parameters that tensor ranks replicate need gradients with the same bits on each.
    const auto fewer = [](const RankGpu& a, const RankGpu& b) {
      return a.multiprocessors < b.multiprocessors;
    };
    cuda::use_multiprocessors(std::min_element(gpus.begin(), gpus.end(), fewer)->multiprocessors);
  }
  return gpus;
}

std::unique_ptr<Communicator> connect(const DevicePlan& plan,
                                      [[maybe_unused]] const DeviceRequest& request,
                                      Communicator& world) {
  std::unique_ptr<Communicator> host = world.split(0, world.rank());
  if constexpr (kHasNccl) {
    if (plan.nccl) {
      set_nccl_environment(request.deterministic);
      if (world.rank() == 0 && !request.nccl_log.empty()) log_nccl_to(request.nccl_log);
      if (plan.gpus < world.size()) set_nccl_environment_for_shared_gpus(world.rank());
      return make_nccl_communicator(std::move(host));
    }
  }
  if constexpr (kHasCuda) {
    if (plan.on_gpus) return make_staged_communicator(std::move(host));
  }
  return host;
}

std::string transport_of(const DevicePlan& plan, const Communicator& world) {
  if constexpr (kHasNccl) {
    if (plan.nccl) return fmt::format("NCCL {}, {}", nccl_version(), describe_launch_order());
  }
  return world.name();
}

/// A sentence if the ranks' products may differ in their last bits, otherwise "".
std::string note_of_other_algorithms([[maybe_unused]] Communicator& world) {
  if constexpr (kHasCuda) {
    const auto of_ranks = all_gather_strings(world, cuda::algorithms_identity());
    const auto other = std::ranges::find_if(of_ranks, [&](auto& of) { return of != of_ranks[0]; });
    if (other != of_ranks.end()) {
      return fmt::format(
          "rank 0 has {}, but rank {} has {}: their products may differ in the last bits, and with "
          "parallel.tensor so may the copies of replicated parameters",
          of_ranks[0], other - of_ranks.begin(), *other);
    }
  }
  return "";
}

void add_note(std::string& notes, const std::string& note) {
  if (!note.empty()) notes += (notes.empty() ? "" : ". ") + note;
}

}  // namespace

OpenedDevices open_devices(const DeviceRequest& request, Communicator& world) {
  UsableGpus found;
  const DevicePlan plan = agree_on_plan(request.device, request.backend, world, found);
  OpenedDevices opened;
  opened.note = plan.note;
  std::vector<RankGpu> gpus;
  if (plan.on_gpus) {
    const int chosen = plan.gpu_of_rank[static_cast<size_t>(world.rank())];
    const int index = found.indices[static_cast<size_t>(chosen)];
    if (!found.why_not.empty()) add_note(opened.note, "not used: " + found.why_not);
    gpus = use_gpus(index, world);
    add_note(opened.note, note_of_other_algorithms(world));
    opened.gpus = plan.gpus;
    opened.device = {DeviceType::cuda, static_cast<int8_t>(index)};
  }
  opened.world = connect(plan, request, world);
  opened.summary = device_summary(plan, world.size(), gpus, transport_of(plan, *opened.world));
  return opened;
}

}  // namespace tessera
