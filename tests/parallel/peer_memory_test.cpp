#include "parallel/communicators/host/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

namespace tessera {
namespace {

/// A chain of processes, each the child of the one before, which end with this object.
class Chain {
 public:
  explicit Chain(int length) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t first = fork();
    if (first == 0) live(length, ends[1]);
    for (int i = 0; i < length; ++i) {
      pid_t process = 0;
      EXPECT_EQ(read(ends[0], &process, sizeof(process)), static_cast<ssize_t>(sizeof(process)));
      processes_.push_back(process);
    }
    close(ends[0]);
    close(ends[1]);
  }
  ~Chain() {
    for (const pid_t process : processes_) kill(process, SIGKILL);
    waitpid(processes_[0], nullptr, 0);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  pid_t operator[](size_t i) const { return processes_[i]; }

 private:
  [[noreturn]] static void live(int length, int end) {
    prctl(PR_SET_NAME, "a) S 1 1 (b");  // /proc shows this name before the parent
    const pid_t self = getpid();
    if (write(end, &self, sizeof(self)) != static_cast<ssize_t>(sizeof(self))) _exit(1);
    if (length > 1 && fork() == 0) live(length - 1, end);
    while (true) pause();
  }

  std::vector<pid_t> processes_;
};

TEST(PeerMemory, FindsTheCommonAncestorOfProcesses) {
  const Chain one(1), three(3);
  const auto ancestor = [](std::vector<pid_t> processes) { return common_ancestor(processes); };
  EXPECT_EQ(ancestor({one[0], three[2]}), getpid());
  EXPECT_EQ(ancestor({three[1], three[2]}), three[1]);
  EXPECT_EQ(ancestor({three[2], three[0], three[1]}), three[0]);
  EXPECT_EQ(ancestor({three[2]}), three[2]);
  EXPECT_EQ(ancestor({three[2], getpid()}), getpid());
  EXPECT_EQ(ancestor({}), 0);
  constexpr pid_t kNoProcess = 1 << 23;  // above the greatest PID
  EXPECT_EQ(ancestor({three[2], kNoProcess}), 0);
}

}  // namespace
}  // namespace tessera
