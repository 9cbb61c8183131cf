#include "tests/emulator/nccl/remote_rank.h"

#include <cstring>
#include <utility>

#include "tests/emulator/nccl/service_thread.h"

namespace emulator {

using Kind = NcclMessage::Kind;
using State = ncclComm::State;

namespace {

void append(std::vector<std::byte>& data, const void* more, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(more);
  data.insert(data.end(), from, from + bytes);
}

}  // namespace

void NcclRemoteRank::accept_connections() {
  for (int socket = accept_nccl(); socket >= 0; socket = accept_nccl()) {
    start_service_thread();
    auto* remote = new NcclRemoteRank;
    // Nothing is received before the object is complete.
    remote->connection_ = NcclConnection::start(
        socket, [remote](const NcclMessage* message) { remote->on_message(message); });
  }
}

void NcclRemoteRank::on_message(const NcclMessage* message) {
  const std::lock_guard lock(stream_mutex());
  if (message == nullptr) return disconnected();
  const NcclMessage::Head& head = message->head;
  switch (head.kind) {
    case Kind::join:
      return join(head);
    case Kind::connect:
      comm_->connecting = head.call;
      return clique_->connect(comm_->rank, head.call);
    case Kind::post:
      return post(head);
    case Kind::data:
      return take(*message);
    case Kind::state:
      comm_->state = static_cast<State>(head.state);
      return clique_->state_changed(*comm_);
    case Kind::abort:
      return clique_->abort(*comm_);
    default:
      nccl_fail("a message that no rank sends");
  }
}

void NcclRemoteRank::join(const NcclMessage::Head& head) {
  clique_ = &NcclLocalClique::of(head.number, head.rank, head.ranks);
  comm_ = &new_comm(*clique_, head.rank, head.device, head.host);
  comm_->remote = this;
  clique_->join(*comm_);
  wake_waiting_hosts();
}

void NcclRemoteRank::post(const NcclMessage::Head& head) {
  comm_->connecting.reset();
  const auto transfer = std::make_shared<Transfer>();
  const NcclBytes bytes = buffer_bytes(head.call, comm_->rank, clique_->size());
  transfer->send.resize(bytes.send);
  transfer->recv.resize(bytes.recv);
  NcclCall call = head.call;
  call.send = transfer->send.data();
  call.recv = transfer->recv.data();
  const auto advance = [this, transfer, number = head.number] {
    if (!transfer->arrived && !std::exchange(transfer->requested, true))
      send(Kind::request, number);
    return transfer->arrived;
  };
  const auto done = [this, transfer, number = head.number] {
    send(Kind::result, number, std::move(transfer->recv));
    transfer->round.reset();
    transfers_.erase(number);
  };
  transfer->round = clique_->add(comm_->rank, {call, advance, done});
  transfers_[head.number] = transfer;
  wake_waiting_hosts();
}

void NcclRemoteRank::take(const NcclMessage& message) {
  const std::shared_ptr<Transfer> transfer = transfers_.at(message.head.number);
  if (message.data.size() != transfer->send.size()) nccl_fail("a call's data has another size");
  if (!message.data.empty()) {
    std::memcpy(transfer->send.data(), message.data.data(), message.data.size());
  }
  transfer->arrived = true;
  transfer->round->requested = true;
  wake_waiting_hosts();
}

void NcclRemoteRank::disconnected() {
  connection_ = nullptr;
  if (comm_ == nullptr || comm_->has_ended()) return;
  comm_->state = State::ended;
  clique_->abort(*comm_);
}

void NcclRemoteRank::send_status() {
  NcclMessage status = {{Kind::status, clique_->number()}};
  status.head.all_joined = clique_->all_joined();
  status.head.finalized = clique_->finalized();
  status.head.error = comm_->error;
  const std::vector<NcclLink> links = clique_->links(comm_->rank);
  status.head.links = links.size();
  append(status.data, links.data(), links.size() * sizeof(NcclLink));
  append(status.data, comm_->last_error.data(), comm_->last_error.size());
  if (connection_) connection_->send(std::move(status));
}

void NcclRemoteRank::send(Kind kind, uint64_t number, std::vector<std::byte> data) {
  if (connection_) connection_->send({{kind, number}, std::move(data)});
}

}  // namespace emulator
