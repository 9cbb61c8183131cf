// Ranks are processes. The test's own process is rank 0 and created the id.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/emulator/nccl/tests/ranks.h"

namespace tessera::cuda {
namespace {

/// Another process. A failing test does not wait for it.
class Process {
 public:
  explicit Process(pid_t pid) : pid_(pid) {}
  ~Process() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Process& operator=(Process&&) = delete;

  /// Returns its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_;
};

/// Runs `body` in processes, connected unless `connects` is false, of which `killed` ends with
/// SIGKILL. Fails if a test fails in any of them. Only once per process, because a fork has no
/// other threads.
void run_processes(int ranks, const std::function<void(NcclRank&)>& body, int killed = -1,
                   bool connects = true) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto run = [&](int rank) {
    NcclRank mine{rank, ranks, id};
    if (connects) {
      ASSERT_NO_FATAL_FAILURE(mine.start(rank));
    }
    body(mine);
  };
  std::vector<Process> others;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        run(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    others.emplace_back(pid);
  }
  run(0);
  if (testing::Test::HasFailure()) return;
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_EQ(others[static_cast<size_t>(rank - 1)].wait(), rank == killed ? -SIGKILL : 0) << rank;
  }
}

/// Whether streams work immediately or as late as possible.
class NcclProcesses : public testing::TestWithParam<const char*> {
 protected:
  Environment lazy_{"TESSERA_EMULATOR_LAZY", GetParam()};
};

TEST_P(NcclProcesses, AllReduceSums) {
  run_processes(4, [](NcclRank& rank) {
    rank.set({1.0f, static_cast<float>(rank.rank)});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    EXPECT_EQ(rank.get()[0], 64.0f);
    EXPECT_EQ(rank.get()[1], 96.0f);
    rank.finish();
  });
}

TEST_P(NcclProcesses, GatherScatterAndBroadcast) {
  run_processes(3, [](NcclRank& rank) {
    const auto own = static_cast<float>(rank.rank);
    rank.set({own, own + 10});
    float* const pairs = rank.data + 2;
    ncclAllGather(rank.data, pairs, 2, ncclFloat32, rank.comm, rank.stream);
    EXPECT_EQ(rank.get(), (std::vector<float>{own, own + 10, 0, 10, 1, 11, 2, 12}));
    ncclReduceScatter(pairs, rank.data, 2, ncclFloat32, ncclSum, rank.comm, rank.stream);
    EXPECT_EQ(rank.get()[1], 3 * (own + 10));
    ncclBroadcast(rank.data, rank.data, 1, ncclFloat32, 2, rank.comm, rank.stream);
    EXPECT_EQ(rank.get()[0], 6.0f);
    rank.finish();
  });
}

// Neither of the two ranks that exchange messages created the id.
TEST_P(NcclProcesses, SendMessages) {
  run_processes(3, [](NcclRank& rank) {
    rank.set({static_cast<float>(rank.rank)});
    if (rank.rank == 1) ncclSend(rank.data, 1, ncclFloat32, 2, rank.comm, rank.stream);
    if (rank.rank == 2) ncclRecv(rank.data, 1, ncclFloat32, 1, rank.comm, rank.stream);
    if (rank.rank == 2) {
      EXPECT_EQ(rank.get()[0], 1.0f);
    }
    rank.finish();
  });
}

TEST_P(NcclProcesses, SendMessagesAroundInAGroup) {
  run_processes(3, [](NcclRank& rank) {
    rank.set({static_cast<float>(rank.rank)});
    const int previous = (rank.rank + 2) % 3;
    ncclGroupStart();
    ncclSend(rank.data, 1, ncclFloat32, (rank.rank + 1) % 3, rank.comm, rank.stream);
    ncclRecv(rank.data + 1, 1, ncclFloat32, previous, rank.comm, rank.stream);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(rank.get()[1], static_cast<float>(previous));
    rank.finish();
  });
}

// While a host waits for another host's message, its GPU continues.
void go_on_while_one_waits(int waits) {
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  run_processes(2, [&](NcclRank& rank) {
    rank.set({1.0f});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    char word = 'x';
    if (rank.rank == waits) {
      EXPECT_EQ(::read(said[0], &word, 1), 1);
      EXPECT_EQ(rank.get()[0], 16.0f);
    } else {
      EXPECT_EQ(rank.get()[0], 16.0f);
      EXPECT_EQ(::write(said[1], &word, 1), 1);
    }
    rank.finish();
  });
}

TEST_P(NcclProcesses, ContinueWhileCreatorOfIdWaits) { go_on_while_one_waits(0); }
TEST_P(NcclProcesses, ContinueWhileOtherHostWaits) { go_on_while_one_waits(1); }

// Rank 1 is remote in one communicator and has remote ranks in the other. In the latter, a
// collective precedes work for which rank 1's host does not wait.
TEST_P(NcclProcesses, ContinueInTwoCommunicators) {
  int ids[2], said[2];
  ASSERT_EQ(::pipe(ids), 0);
  ASSERT_EQ(::pipe(said), 0);
  run_processes(3, [&](NcclRank& rank) {
    NcclRank pair = rank;
    pair.ranks = 2;
    pair.rank = rank.rank - 1;
    char word = 'x';
    if (rank.rank == 1) {
      EXPECT_EQ(ncclGetUniqueId(&pair.id), ncclSuccess);
      EXPECT_EQ(::write(ids[1], &pair.id, sizeof(pair.id)), ssize_t(sizeof(pair.id)));
    }
    if (rank.rank == 2) {
      EXPECT_EQ(::read(ids[0], &pair.id, sizeof(pair.id)), ssize_t(sizeof(pair.id)));
    }
    if (rank.rank > 0) {
      EXPECT_EQ(pair.connect(), ncclSuccess);
    }
    rank.set({1.0f});
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    if (rank.rank > 0) {
      EXPECT_EQ(pair.all_reduce(), ncclSuccess);
    }
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    if (rank.rank == 0) {
      EXPECT_EQ(rank.get()[0], 3.0f + 6.0f + 6.0f);
      EXPECT_EQ(::write(said[1], &word, 1), 1);
    } else if (rank.rank == 1) {
      EXPECT_EQ(::read(said[0], &word, 1), 1);
    }
    if (rank.rank > 0) {
      EXPECT_EQ(rank.get()[0], 15.0f);
      pair.finish();
    }
    rank.finish();
  });
}

/// Returns the error of a collective that another rank never reaches.
ncclResult_t failure(const NcclRank& rank) {
  const ncclResult_t code = rank.all_reduce();
  return code == ncclSuccess ? rank.wait_for_failure() : code;
}

void fail_where_one_is_aborted(int aborted) {
  run_processes(3, [&](NcclRank& rank) {
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    rank.get();
    if (rank.rank != aborted) {
      EXPECT_EQ(failure(rank), ncclRemoteError);
      const std::string_view why = ncclGetLastError(rank.comm);
      EXPECT_NE(why.find("connection closed by remote peer"), why.npos) << why;
    }
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
  });
}

TEST_P(NcclProcesses, FailWhenCreatorOfIdAborts) { fail_where_one_is_aborted(0); }
TEST_P(NcclProcesses, FailWhenOtherRankAborts) { fail_where_one_is_aborted(1); }

TEST_P(NcclProcesses, FailWhenRankIsKilled) {
  const auto body = [](NcclRank& rank) {
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    rank.get();
    if (rank.rank == 2) ::raise(SIGKILL);
    EXPECT_EQ(failure(rank), ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
  };
  run_processes(3, body, /*killed=*/2);
}

/// Connects and sums on one GPU; expects `code` of the connection.
void share_a_gpu(bool hosts_differ, ncclResult_t code) {
  const auto body = [&](NcclRank& rank) {
    if (hosts_differ) ::setenv("NCCL_HOSTID", std::to_string(rank.rank).c_str(), 1);
    rank.use_gpu(0);
    EXPECT_EQ(rank.connect(), code);
    if (code != ncclSuccess) return;
    rank.set({1.0f});
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    EXPECT_EQ(rank.get()[0], 2.0f);
    rank.finish();
  };
  run_processes(2, body, /*killed=*/-1, /*connects=*/false);
}

TEST_P(NcclProcesses, RefuseToShareAGpuOfOneHost) { share_a_gpu(false, ncclInvalidUsage); }
TEST_P(NcclProcesses, ShareAGpuIfTheirHostIdsDiffer) { share_a_gpu(true, ncclSuccess); }

INSTANTIATE_TEST_SUITE_P(Streams, NcclProcesses, testing::Values("0", "1"), [](const auto& test) {
  return test.param == std::string_view("1") ? "lazy" : "eager";
});

TEST(NcclProcessesDeathTest, MustMakeSameCall) {
  const auto differ = [] {
    run_processes(2, [](NcclRank& rank) { rank.all_reduce(ncclSum, rank.rank == 0 ? 4 : 5); });
  };
  EXPECT_DEATH(differ(),
               "ranks of communicator 1 call different operations: rank [01] ncclAllReduce of [45] "
               "ncclFloat32 by ncclSum, and rank [01] ncclAllReduce of [45] ncclFloat32");
}

TEST(NcclProcessesDeathTest, CannotConnectToEndedProcess) {
  ncclUniqueId id;
  const pid_t other = ::fork();
  if (other == 0) ::_exit(0);
  ::waitpid(other, nullptr, 0);
  struct {
    pid_t process;
    uint64_t number;
  } const whose = {other, 1};
  std::memset(&id, 0, sizeof(id));
  std::memcpy(id.internal, &whose, sizeof(whose));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  check(cudaSetDevice(0), "cudaSetDevice");
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 1, &config), ncclSystemError);
  EXPECT_STREQ(ncclGetLastError(nullptr), "Call to connect returned Connection refused");
}

}  // namespace
}  // namespace tessera::cuda
