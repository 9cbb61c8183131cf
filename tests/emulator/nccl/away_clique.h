#pragma once

#include <map>
#include <memory>
#include <set>

#include "tests/emulator/nccl/clique.h"
#include "tests/emulator/nccl/connection.h"

namespace emulator {

/// A communicator's ranks as one of them sees them whose process did not make the id: it tells that
/// process, where a NcclGuest stands for it, what it does, and hears what comes of it.
class NcclAwayClique final : public NcclClique {
 public:
  /// Null if the process is not there.
  static NcclAwayClique* to(pid_t process, uint64_t number, int size);

  void join(ncclComm& comm) override;
  bool whole() const override { return whole_; }
  void connect(int rank, const NcclCall& call) override;
  bool connected(int rank, const NcclCall& call) const override;
  void entered(const ncclComm& comm) override;
  bool finalized() const override { return finalized_; }
  void abort(const ncclComm& comm) override;

 private:
  using Message = NcclMessage;

  /// A call that is not done yet.
  struct Posted {
    NcclCall call;
    Stream* stream;
    uint64_t ticket;
    NcclBytes bytes;
    bool sent = false, done = false;
    std::vector<std::byte> result = {};
  };

  NcclAwayClique(int socket, uint64_t number, int size)
      : NcclClique(number, size), socket_(socket) {}

  Work post(const ncclComm& comm, const NcclCall& call, Stream& stream, uint64_t ticket) override;
  bool reached(uint64_t number, Posted& posted);
  void heard(const Message* message);
  void take_status(const Message& status);
  void leave();
  void send(Message message);

  int socket_;
  std::shared_ptr<NcclConnection> connection_;  ///< until the other end is closed
  ncclComm* comm_ = nullptr;
  bool whole_ = false, finalized_ = false;
  std::set<NcclLink> links_;
  uint64_t calls_ = 0;
  std::map<uint64_t, std::shared_ptr<Posted>> posted_;
};

}  // namespace emulator
