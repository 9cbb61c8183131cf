#pragma once

#include <cstddef>
#include <memory>

#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// Messages between the ranks of a group on different hosts. Its functions do not wait, and one
/// thread calls them at a time.
class HostLink {
 public:
  virtual ~HostLink() = default;

  /// Messages that have started. Their memory must not be touched until progress() has returned
  /// Progress::finished.
  class Transfers {
   public:
    virtual ~Transfers() = default;
    /// Messages between two ranks with the same tag are matched in order. 0 bytes are sent, too.
    /// Tags are in [1, kTags].
    virtual void send(int rank, int tag, const void* data, size_t bytes) = 0;
    virtual void receive(int rank, int tag, void* data, size_t bytes) = 0;
    /// Advances all of them. Throws if a message has another size than its receiver expects.
    virtual Progressable::Progress progress() = 0;
  };
  virtual std::unique_ptr<Transfers> start() = 0;

  /// Every MPI library allows this many.
  static constexpr int kTags = 32767;
  /// The first ones are for collectives, the others for messages of exchanges.
  static constexpr int kCallTags = 16384;
};

}  // namespace tessera
