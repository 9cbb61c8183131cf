#include "tests/simt/nccl/away_clique.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/simt/device_memory.h"
#include "tests/simt/standstill.h"

namespace simt {

using Kind = NcclMessage::Kind;

namespace {

/// How far other ranks need this process's streams to come, whatever its host does meanwhile: a GPU
/// would come there by itself.
std::map<Stream*, uint64_t>& wanted() {
  static auto* instance = new std::map<Stream*, uint64_t>;
  return *instance;
}

void come_as_wanted() {
  for (const auto& [stream, ticket] : wanted()) run_until(*stream, ticket);
  wake_waiting_hosts();
}

}  // namespace

NcclAwayClique* NcclAwayClique::to(pid_t process, uint64_t number, int size) {
  const int socket = connect_nccl(process);
  return socket < 0 ? nullptr : new NcclAwayClique(socket, number, size);
}

void NcclAwayClique::join(ncclComm& comm) {
  comm_ = &comm;
  connection_ =
      NcclConnection::start(socket_, [this](const NcclMessage* message) { heard(message); });
  NcclMessage message = {{Kind::join, number()}};
  message.head.rank = comm.rank;
  message.head.ranks = size();
  message.head.device = comm.device;
  connection_->send(std::move(message));
}

void NcclAwayClique::connect(int /*rank*/, const NcclCall& call) {
  connection_->send({{Kind::connect, 0, call}});
}

bool NcclAwayClique::connected(int rank, const NcclCall& call) const {
  return links_.count(link_of(rank, call)) > 0;
}

void NcclAwayClique::entered(const ncclComm& comm) {
  NcclMessage message = {{Kind::state}};
  message.head.state = static_cast<int>(comm.state);
  connection_->send(std::move(message));
  if (comm.has_ended()) connection_->close();
}

void NcclAwayClique::abort(const ncclComm& /*comm*/) { connection_->send({{Kind::abort}}); }

Work NcclAwayClique::post(const ncclComm& comm, const NcclCall& call, Stream& stream,
                          uint64_t ticket) {
  const uint64_t number = calls_++;
  auto posted = std::make_shared<Posted>(
      Posted{call, &stream, ticket, buffer_bytes(call, comm.rank, size())});
  posted_[number] = posted;
  connection_->send({{Kind::post, number, call}});
  return [this, number, posted] { return reached(number, *posted); };
}

bool NcclAwayClique::reached(uint64_t number, Posted& posted) {
  if (!std::exchange(posted.sent, true)) {
    const DeviceAccess access;
    const auto* from = static_cast<const std::byte*>(posted.call.send);
    connection_->send({{Kind::data, number}, {from, from + posted.bytes.send}});
  }
  if (!posted.done) return false;
  const DeviceAccess access;
  if (posted.bytes.recv > 0) {
    std::memcpy(posted.call.recv, posted.result.data(), posted.bytes.recv);
  }
  posted_.erase(number);
  return true;
}

void NcclAwayClique::heard(const NcclMessage* message) {
  const std::lock_guard lock(stream_mutex());
  if (message == nullptr) return leave();
  switch (message->head.kind) {
    case Kind::status:
      take_status(*message);
      break;
    case Kind::come: {
      const Posted& posted = *posted_.at(message->head.number);
      uint64_t& ticket = wanted()[posted.stream];
      ticket = std::max(ticket, posted.ticket);
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
  come_as_wanted();
}

void NcclAwayClique::take_status(const NcclMessage& status) {
  whole_ = status.head.whole;
  finalized_ = status.head.finalized;
  std::vector<NcclLink> links(status.head.links);
  const size_t bytes = links.size() * sizeof(NcclLink);
  if (bytes > 0) std::memcpy(links.data(), status.data.data(), bytes);
  links_ = {links.begin(), links.end()};
  if (status.head.error == ncclSuccess) return;
  const auto* text = reinterpret_cast<const char*>(status.data.data());
  comm_->fail(status.head.error, {text + bytes, text + status.data.size()});
}

void NcclAwayClique::leave() {
  if (finalized_ || comm_->has_ended()) return;
  comm_->fail(ncclRemoteError, "connection closed by remote peer: the process of rank 0");
  wake_waiting_hosts();
}

}  // namespace simt
