#include "tests/emulator/nccl/kernels.h"

#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "tests/emulator/nccl/clique.h"

namespace emulator {
namespace {

using Kernel = std::shared_ptr<NcclKernel>;

struct Gpu {
  std::vector<Kernel> launched;  ///< not done, in the order of their launches
  Kernel started;
};

Gpu& gpu(int device) {
  static auto* all = new std::map<int, Gpu>;
  return (*all)[device];
}

bool keeps_launch_order() {
  constexpr int kFirstVersion = 22600;
  const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return nccl_version_code() >= kFirstVersion && value != nullptr && value != std::string_view("0");
}

/// Runs the work before the kernel; returns whether its stream has reached it.
bool reach(const NcclKernel& kernel) {
  return kernel.stream->done + 1 >= kernel.ticket || run_until(*kernel.stream, kernel.ticket - 1);
}

/// Of its communicator.
uint64_t number_of(const NcclKernel& kernel) { return kernel.comm->clique->number(); }

/// Neighbors in the rows and columns of a grid of ranks differ.
bool prefers_newest(int device) { return std::popcount(static_cast<unsigned>(device)) % 2 != 0; }

/// The kernel that starts next; null if none can.
Kernel next_kernel(const Gpu& of, int device) {
  if (keeps_launch_order()) return reach(*of.launched.front()) ? of.launched.front() : nullptr;
  const std::vector<Kernel> launched = of.launched;  // reach() may end some
  Kernel next;
  for (const Kernel& kernel : launched) {
    if (!reach(*kernel) || kernel->done) continue;
    const auto is_preferred = [&] {
      const uint64_t mine = number_of(*kernel), other = number_of(*next);
      return mine != other && (mine > other) == prefers_newest(device);
    };
    if (next == nullptr || is_preferred()) next = kernel;
  }
  return next;
}

}  // namespace

Kernel launch_nccl_kernel(const ncclComm& comm, Stream& stream, uint64_t ticket) {
  return gpu(comm.device)
      .launched.emplace_back(std::make_shared<NcclKernel>(NcclKernel{&comm, &stream, ticket}));
}

bool may_run(const Kernel& kernel) {
  Gpu& of = gpu(kernel->comm->device);
  while (of.started != kernel) {
    if (of.started == nullptr) {
      const Kernel next = next_kernel(of, kernel->comm->device);
      if (next == nullptr) return false;
      if (of.started == nullptr && !next->done) of.started = next;  // it or another ran meanwhile
    } else if (const Kernel other = of.started; !run_until(*other->stream, other->ticket)) {
      return false;
    }
  }
  return true;
}

void end_nccl_kernel(NcclKernel& kernel) {
  kernel.done = true;
  Gpu& of = gpu(kernel.comm->device);
  std::erase_if(of.launched, [](const Kernel& launched) { return launched->done; });
  if (of.started != nullptr && of.started->done) of.started = nullptr;
}

bool has_nccl_kernels(int device) {
  return std::ranges::any_of(gpu(device).launched,
                             [](const Kernel& kernel) { return !kernel->comm->has_ended(); });
}

int nccl_version_code() {
  const char* version = std::getenv("TESSERA_EMULATOR_NCCL_VERSION");
  return version == nullptr ? NCCL_VERSION_CODE : std::atoi(version);
}

}  // namespace emulator
