#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// Resources that a host communicator keeps alive.
struct HostResources {
  std::shared_ptr<void> memory;  ///< holds the members' event counts and parts
  std::shared_ptr<ProgressThread> thread;
};

/// A communicator of ranks on one host. Its collectives run in `group`; messages and splits use
/// `messages`, a communicator of the same ranks. The progress thread advances pending collectives.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(
    std::unique_ptr<Communicator> messages, std::unique_ptr<HostGroup> group,
    HostResources resources);

}  // namespace tessera
