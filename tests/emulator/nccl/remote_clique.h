#pragma once

#include <map>
#include <memory>
#include <set>

#include "tests/emulator/nccl/clique.h"
#include "tests/emulator/nccl/connection.h"

namespace emulator {

/// A communicator as seen by a rank whose process did not create the id. It reports what the rank
/// does to the process that did, where an NcclRemoteRank represents it, and receives the results.
class NcclRemoteClique final : public NcclClique {
 public:
  /// Returns null if the process does not exist.
  static NcclRemoteClique* to(pid_t process, uint64_t number, int size);

  void join(ncclComm& comm) override;
  bool all_joined() const override { return all_joined_; }
  void connect(int rank, const NcclCall& call) override;
  bool has_links(int rank, const NcclCall& call) const override;
  void state_changed(const ncclComm& comm) override;
  bool finalized() const override { return finalized_; }
  void abort(const ncclComm& comm) override;

 private:
  using Message = NcclMessage;

  /// A call that is not done yet.
  struct Posted {
    NcclCall call;
    std::shared_ptr<NcclKernel> kernel;
    NcclBytes bytes;
    bool sent = false, done = false;
    std::vector<std::byte> result = {};
  };

  NcclRemoteClique(int socket, uint64_t number, int size)
      : NcclClique(number, size), socket_(socket) {}

  Work post(const ncclComm& comm, const NcclCall& call,
            const std::shared_ptr<NcclKernel>& kernel) override;
  bool reached(uint64_t number, Posted& posted);
  void on_message(const Message* message);
  void take_status(const Message& status);
  void disconnected();
  void send(Message message);

  int socket_;
  std::shared_ptr<NcclConnection> connection_;  ///< until the other end is closed
  ncclComm* comm_ = nullptr;
  bool all_joined_ = false, finalized_ = false;
  std::set<NcclLink> links_;
  uint64_t calls_ = 0;
  std::map<uint64_t, std::shared_ptr<Posted>> posted_;
};

}  // namespace emulator
