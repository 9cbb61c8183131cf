#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// What a communicator of a host's ranks needs for as long as it lives.
struct HostResources {
  std::shared_ptr<void> memory;  ///< of the members' bells and parts
  std::shared_ptr<ProgressThread> thread;
};

/// A communicator of ranks that run on one host, whose collectives are a HostGroup's; messages and
/// splits are those of `messages`, of the same ranks. What is pending is moved on by the thread.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(
    std::unique_ptr<Communicator> messages, std::unique_ptr<HostGroup> group,
    HostResources resources);

}  // namespace tessera
