#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// What a HostGroup does not do for a group of ranks: splitting it.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Like the functions of Communicator with these names.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual std::string name() const = 0;
};

/// Resources that a host communicator keeps alive.
struct HostResources {
  std::shared_ptr<void> memory;  ///< holds the members' event counts and parts
  std::shared_ptr<ProgressThread> thread;
};

/// A communicator of `ranks` whose calls run in `group`, on one host or several. The progress
/// thread advances pending ones.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<RankGroup> ranks,
                                                                   std::unique_ptr<HostGroup> group,
                                                                   HostResources resources);

}  // namespace tessera
