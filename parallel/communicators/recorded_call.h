#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/trace/flight_recorder.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

/// Records a blocking call on `bytes` bytes in the calling thread's flight recorder for its
/// lifetime. `peers` are those of an exchange. Does nothing without a recorder, within another
/// recorded call, and in groups of one.
class RecordedCall {
 public:
  RecordedCall(const Communicator& group, Collective kind, int64_t bytes,
               std::span<const FlightPeer> peers = {});
  ~RecordedCall();
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

  /// Starts a collective by calling `start`, and records its start and the wait for it.
  static std::unique_ptr<PendingCollective> start_pending(
      const Communicator& group, Collective kind, int64_t bytes,
      const std::function<std::unique_ptr<PendingCollective>()>& start,
      std::span<const FlightPeer> peers = {});

 private:
  static FlightRecorder* recorder_for(const Communicator& group);

  FlightRecorder* recorder_;
  uint64_t number_ = 0;
  int exceptions_ = 0;
  std::optional<FlightRecorder::Call> call_;
};

}  // namespace tessera
