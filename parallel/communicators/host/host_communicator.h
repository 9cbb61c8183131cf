#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// Messages between the ranks of a group, and groups split from it: what a HostGroup does not do.
class RankMessages {
 public:
  virtual ~RankMessages() = default;
  // Like the functions of Communicator with these names.
  virtual void send(const Tensor& tensor, int destination) = 0;
  virtual void recv(Tensor tensor, int source) = 0;
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual std::string name() const = 0;
};

/// Resources that a host communicator keeps alive.
struct HostResources {
  std::shared_ptr<void> memory;  ///< holds the members' event counts and parts
  std::shared_ptr<ProgressThread> thread;
};

/// A communicator whose collectives run in `group`, on one host or several. The progress thread
/// advances pending collectives.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(
    std::unique_ptr<RankMessages> messages, std::unique_ptr<HostGroup> group,
    HostResources resources);

}  // namespace tessera
