// The communicator cases on MPI ranks: mpirun -np N parallel_mpi_tests. With GPUs, real or
// emulated, the cases also run on GPU tensors staged through host memory, and with NCCL if every
// rank has its own GPU. With --fail=KIND, the last rank fails in that way while the others wait for
// it, and the exit code must report the failure.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/memory.h"
#include "launch/devices/open_devices.h"
#include "parallel/communicators/mpi/mpi_launch.h"
#include "parallel/communicators/mpi/mpi_runtime.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/parallel/device_mirror.h"

namespace tessera {
namespace {

MpiRuntime* runtime = nullptr;
Communicator* chunked_world = nullptr;
Communicator* two_hosts_world = nullptr;
Communicator* apart_world = nullptr;

// The ranks' GPUs as communicators of host tensors; null without GPUs.
Communicator* staged_world = nullptr;
Communicator* nccl_world = nullptr;

// If a rank leaves a case by an exception, the others would wait forever.
void run(const CommunicatorCase& the_case, Communicator& world) {
  try {
    the_case.body(world);
  } catch (const std::exception& error) {
    runtime->abort(fmt::format("{}: {}", the_case.name, error.what()));
  }
}

class MpiCases : public ::testing::TestWithParam<CommunicatorCase> {};

TEST_P(MpiCases, Hold) { run(GetParam(), runtime->world()); }

TEST_P(MpiCases, HoldOnSimulatedHosts) { run(GetParam(), *two_hosts_world); }

TEST_P(MpiCases, HoldOnHostsWhoseRanksAreNoNeighbors) { run(GetParam(), *apart_world); }

// Each rank is a host of its own. With so few bytes per MPI call, most messages need several.
TEST_P(MpiCases, HoldInPieces) { run(GetParam(), *chunked_world); }

TEST_P(MpiCases, HoldForGpuTensorsStaged) {
  if (staged_world == nullptr) GTEST_SKIP() << "there is no GPU";
  run(GetParam(), *staged_world);
}

TEST_P(MpiCases, HoldForGpuTensorsWithNccl) {
  if (nccl_world == nullptr) GTEST_SKIP() << "NCCL is missing, or there are fewer GPUs than ranks";
  if (std::string_view(GetParam().name) == "messages_that_do_not_match_fail_on_both_ranks") {
    GTEST_SKIP() << "NCCL does not compare sizes";
  }
  run(GetParam(), *nccl_world);
}

INSTANTIATE_TEST_SUITE_P(World, MpiCases, ::testing::ValuesIn(communicator_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(Mpi, RecognizesLauncher) { EXPECT_TRUE(launched_by_mpi()); }

// All ranks of these tests run on one host. If they may not copy directly, the cases above covered
// MPI's collectives only.
TEST(Mpi, CopiesDirectlyOrExplainsWhyNot) {
  const std::string name = runtime->world().name();
  if (runtime->world().size() == 1) GTEST_SKIP() << "a single rank has no peer to copy from";
  if (name.find("because") != std::string::npos) GTEST_SKIP() << name;
  EXPECT_EQ(name, "mpi, direct copies");
  EXPECT_EQ(chunked_world->name(), "mpi");
  if (runtime->world().size() == 4) {
    EXPECT_EQ(two_hosts_world->name(), "mpi between 2 hosts, direct copies on each");
  }
}

// Prints only failures, on ranks other than 0.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string text = fmt::format(
        "{}:{}: rank {}: {}\n", result.file_name() == nullptr ? "?" : result.file_name(),
        result.line_number(), runtime->world().rank(), result.summary());
    std::fputs(text.c_str(), stderr);
  }
};

// The ranks' GPUs, connected by `backend`; null if they cannot be connected.
std::unique_ptr<Communicator> open_gpus(Backend backend) {
  if constexpr (kHasCuda) {
    try {
      OpenedDevices opened = open_devices({DeviceChoice::cuda, backend}, runtime->world());
      if (runtime->world().rank() == 0) std::printf("%s\n", opened.summary.c_str());
      return make_device_mirror(std::move(opened.world));
    } catch (const Error& error) {
      if (runtime->world().rank() == 0) std::printf("not tested: %s\n", error.what());
    }
  }
  return nullptr;
}

int run_cases() {
  if (runtime->world().rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  const std::unique_ptr<Communicator> chunked =
      runtime->duplicate_world({.max_bytes = 997, .simulated_host = [](int rank) { return rank; }});
  chunked_world = chunked.get();
  // Hosts of two ranks, and of ranks that are no neighbors.
  const std::unique_ptr<Communicator> two_hosts =
      runtime->duplicate_world({.simulated_host = [](int rank) { return rank / 2; }});
  two_hosts_world = two_hosts.get();
  const std::unique_ptr<Communicator> apart =
      runtime->duplicate_world({.simulated_host = [](int rank) { return rank % 2; }});
  apart_world = apart.get();
  const std::unique_ptr<Communicator> staged = open_gpus(Backend::mpi);
  staged_world = staged.get();
  const std::unique_ptr<Communicator> nccl = open_gpus(Backend::nccl);
  nccl_world = nccl.get();
  return RUN_ALL_TESTS();
}

void fail_on_last_rank(std::string_view kind) {
  Communicator& world = runtime->world();
  const OwnedTensor owned({1000}, DType::f32);
  if (world.rank() == world.size() - 1) {
    std::unique_ptr<PendingCollective> pending;
    if (kind == "pending") pending = world.all_reduce_async(owned.tensor);
    fail("the last rank fails");
  }
  // Otherwise a rank might see that the calls differ before the last rank's error ends it.
  if (kind == "pending") std::this_thread::sleep_for(std::chrono::seconds(2));
  world.all_reduce(owned.tensor);  // the failing rank never makes this call
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFail = "--fail=";
  const std::string_view option = argc > 1 ? argv[1] : "";
  const bool fails = option.substr(0, kFail.size()) == kFail;
  const std::string_view kind = fails ? option.substr(kFail.size()) : "";

  try {
    MpiRuntime mpi;
    runtime = &mpi;
    if (!fails) return run_cases();
    if (kind == "unwind") {
      fail_on_last_rank(kind);
      return 0;
    }
    try {
      fail_on_last_rank(kind);
    } catch (const std::exception& error) {
      mpi.abort(error.what());
    }
  } catch (const std::exception&) {
  }
  return 0;
}
