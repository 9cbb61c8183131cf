#pragma once

#include <map>
#include <memory>

#include "tests/emulator/nccl/connection.h"
#include "tests/emulator/nccl/home_clique.h"

namespace emulator {

/// A rank of another process, in the process that made the communicator's id: does there what its
/// NcclAwayClique says that the rank does. It lasts as long as the process.
class NcclGuest {
 public:
  /// Lets in the ranks that have come since the last call.
  static void let_in();

  /// Tells the rank how its communicator is.
  void tell();

 private:
  using Message = NcclMessage;

  /// What the rank gives to a call, and gets from it.
  struct Transfer {
    std::vector<std::byte> send, recv;
    bool asked = false, here = false;
    std::shared_ptr<NcclHomeClique::Round> round = nullptr;  ///< until it is done
  };

  void heard(const Message* message);
  void join(const Message::Head& head);
  void post(const Message::Head& head);
  void take(const Message& message);
  void leave();
  void send(Message::Kind kind, uint64_t number, std::vector<std::byte> data = {});

  std::shared_ptr<NcclConnection> connection_;  ///< until the other end is closed
  NcclHomeClique* clique_ = nullptr;
  ncclComm* comm_ = nullptr;
  std::map<uint64_t, std::shared_ptr<Transfer>> transfers_;
};

}  // namespace emulator
