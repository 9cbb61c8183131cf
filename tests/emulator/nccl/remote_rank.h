#pragma once

#include <map>
#include <memory>

#include "tests/emulator/nccl/connection.h"
#include "tests/emulator/nccl/local_clique.h"

namespace emulator {

/// Represents a rank of another process in the process that created the communicator's id, and does
/// what the rank's NcclRemoteClique reports. Lives as long as the process.
class NcclRemoteRank {
 public:
  /// Accepts the ranks that have connected since the last call.
  static void accept_connections();

  /// Sends the communicator's status to the rank.
  void send_status();

 private:
  using Message = NcclMessage;

  /// The data that the rank passes to a call, and receives from it.
  struct Transfer {
    std::vector<std::byte> send, recv;
    bool requested = false, arrived = false;
    std::shared_ptr<NcclLocalClique::Round> round = nullptr;  ///< until it is done
  };

  void on_message(const Message* message);
  void join(const Message::Head& head);
  void post(const Message::Head& head);
  void take(const Message& message);
  void disconnected();
  void send(Message::Kind kind, uint64_t number, std::vector<std::byte> data = {});

  std::shared_ptr<NcclConnection> connection_;  ///< until the other end is closed
  NcclLocalClique* clique_ = nullptr;
  ncclComm* comm_ = nullptr;
  std::map<uint64_t, std::shared_ptr<Transfer>> transfers_;
};

}  // namespace emulator
