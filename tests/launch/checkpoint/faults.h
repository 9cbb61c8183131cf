#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "launch/checkpoint/save/publish.h"

// Ways to make a save fail or die.

namespace tessera::testing_checkpoint {

/// Returns whether the new checkpoint has its final name at this point.
inline bool is_published(const std::string& point) {
  return point == "after_rename" || point == "during_prune" || point == "after_prune";
}

/// Runs `body` in a child process. Returns the status of waitpid().
template <typename Body>
int run_in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Kills the process at a point.
inline SaveObserver kill_at(const std::string& at) {
  return [at](const char* point) {
    if (point == at) kill(getpid(), SIGKILL);
  };
}

/// Throws an Error at a point.
inline SaveObserver throw_at(const std::string& at) {
  return [at](const char* point) {
    if (point == at) fail("failed at {}", point);
  };
}

/// Returns the result of `body`, run in a child process with its own limits and mounts.
template <typename Body>
std::string text_from_child(Body&& body) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const int status = run_in_child([&] {
    const std::string text = body();
    const ssize_t written = write(ends[1], text.data(), text.size());
    require(written == static_cast<ssize_t>(text.size()), "the pipe is too small");
  });
  EXPECT_EQ(status, 0);
  close(ends[1]);
  char text[4096];
  const ssize_t size = read(ends[0], text, sizeof text);
  close(ends[0]);
  return {text, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

}  // namespace tessera::testing_checkpoint
