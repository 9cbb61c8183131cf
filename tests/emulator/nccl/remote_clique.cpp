#include "tests/emulator/nccl/remote_clique.h"

#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulator/deadlock.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/nccl/service_thread.h"

namespace emulator {

using Kind = NcclMessage::Kind;

NcclRemoteClique* NcclRemoteClique::to(pid_t process, uint64_t number, int size) {
  const int socket = connect_nccl(process);
  return socket < 0 ? nullptr : new NcclRemoteClique(socket, number, size);
}

void NcclRemoteClique::join(ncclComm& comm) {
  comm_ = &comm;
  start_service_thread();
  connection_ =
      NcclConnection::start(socket_, [this](const NcclMessage* message) { on_message(message); });
  NcclMessage message = {{Kind::join, number()}};
  message.head.rank = comm.rank;
  message.head.ranks = size();
  message.head.device = comm.device;
  message.head.host = comm.host;
  send(std::move(message));
}

void NcclRemoteClique::connect(int /*rank*/, const NcclCall& call) {
  send({{Kind::connect, 0, call}});
}

bool NcclRemoteClique::has_links(int rank, const NcclCall& call) const {
  return links_.count(link_of(rank, call)) > 0;
}

void NcclRemoteClique::state_changed(const ncclComm& comm) {
  NcclMessage message = {{Kind::state}};
  message.head.state = static_cast<int>(comm.state);
  send(std::move(message));
  if (comm.has_ended() && connection_) connection_->close();
}

void NcclRemoteClique::abort(const ncclComm& /*comm*/) { send({{Kind::abort}}); }

Work NcclRemoteClique::post(const ncclComm& comm, const NcclCall& call,
                            const std::shared_ptr<NcclKernel>& kernel) {
  const uint64_t number = calls_++;
  auto posted =
      std::make_shared<Posted>(Posted{call, kernel, buffer_bytes(call, comm.rank, size())});
  posted_[number] = posted;
  send({{Kind::post, number, call}});
  return [this, number, posted] { return reached(number, *posted); };
}

bool NcclRemoteClique::reached(uint64_t number, Posted& posted) {
  if (!std::exchange(posted.sent, true)) {
    const DeviceAccess access;
    const auto* from = static_cast<const std::byte*>(posted.call.send);
    send({{Kind::data, number}, {from, from + posted.bytes.send}});
  }
  if (!posted.done) return false;
  const DeviceAccess access;
  if (posted.bytes.recv > 0) {
    std::memcpy(posted.call.recv, posted.result.data(), posted.bytes.recv);
  }
  posted_.erase(number);
  return true;
}

void NcclRemoteClique::on_message(const NcclMessage* message) {
  const std::lock_guard lock(stream_mutex());
  if (message == nullptr) return disconnected();
  switch (message->head.kind) {
    case Kind::status:
      take_status(*message);
      break;
    case Kind::request: {
      const Posted& posted = *posted_.at(message->head.number);
      request_work({comm_, posted.kernel->stream, posted.kernel->ticket});
      break;
    }
    case Kind::result: {
      Posted& posted = *posted_.at(message->head.number);
      posted.result = message->data;
      posted.done = true;
      break;
    }
    default:
      nccl_fail("a message that no rank gets");
  }
  something_happens();
  wake_waiting_hosts();
}

void NcclRemoteClique::take_status(const NcclMessage& status) {
  all_joined_ = status.head.all_joined;
  finalized_ = status.head.finalized;
  std::vector<NcclLink> links(status.head.links);
  const size_t bytes = links.size() * sizeof(NcclLink);
  if (bytes > 0) std::memcpy(links.data(), status.data.data(), bytes);
  links_ = {links.begin(), links.end()};
  if (status.head.error == ncclSuccess) return;
  const auto* text = reinterpret_cast<const char*>(status.data.data());
  comm_->fail(status.head.error, {text + bytes, text + status.data.size()});
}

void NcclRemoteClique::send(NcclMessage message) {
  if (connection_) connection_->send(std::move(message));
}

void NcclRemoteClique::disconnected() {
  connection_ = nullptr;
  if (finalized_ || comm_->has_ended()) return;
  comm_->fail(ncclRemoteError, "connection closed by remote peer: the process that made the id");
  wake_waiting_hosts();
}

}  // namespace emulator
