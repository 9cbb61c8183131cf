#pragma once

#include <map>
#include <memory>

#include "tests/emulator/nccl/connection.h"
#include "tests/emulator/nccl/local_clique.h"

namespace emulator {

/// Represents a rank of another process in the process that created the communicator's id, and does
/// what the rank's NcclRemoteClique reports. Lives as long as the process.
class NcclGuest {
 public:
  /// Accepts the ranks that have connected since the last call.
  static void let_in();

  /// Sends the communicator's status to the rank.
  void tell();

 private:
  using Message = NcclMessage;

  /// The data that the rank passes to a call, and receives from it.
  struct Transfer {
    std::vector<std::byte> send, recv;
    bool asked = false, here = false;
    std::shared_ptr<NcclLocalClique::Round> round = nullptr;  ///< until it is done
  };

  void heard(const Message* message);
  void join(const Message::Head& head);
  void post(const Message::Head& head);
  void take(const Message& message);
  void leave();
  void send(Message::Kind kind, uint64_t number, std::vector<std::byte> data = {});

  std::shared_ptr<NcclConnection> connection_;  ///< until the other end is closed
  NcclLocalClique* clique_ = nullptr;
  ncclComm* comm_ = nullptr;
  std::map<uint64_t, std::shared_ptr<Transfer>> transfers_;
};

}  // namespace emulator
