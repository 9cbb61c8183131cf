#include "tests/emulator/nccl/guest.h"

#include <cstring>
#include <utility>

#include "tests/emulator/nccl/others.h"

namespace emulator {

using Kind = NcclMessage::Kind;
using State = ncclComm::State;

namespace {

void append(std::vector<std::byte>& data, const void* more, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(more);
  data.insert(data.end(), from, from + bytes);
}

}  // namespace

void NcclGuest::let_in() {
  for (int socket = accept_nccl(); socket >= 0; socket = accept_nccl()) {
    serve_others();
    auto* guest = new NcclGuest;
    // Nothing is received before the object is complete.
    guest->connection_ = NcclConnection::start(
        socket, [guest](const NcclMessage* message) { guest->heard(message); });
  }
}

void NcclGuest::heard(const NcclMessage* message) {
  const std::lock_guard lock(stream_mutex());
  if (message == nullptr) return leave();
  const NcclMessage::Head& head = message->head;
  switch (head.kind) {
    case Kind::join:
      return join(head);
    case Kind::connect:
      comm_->first_of_kind = {head.call, nullptr};
      return clique_->connect(comm_->rank, head.call);
    case Kind::post:
      return post(head);
    case Kind::data:
      return take(*message);
    case Kind::state:
      comm_->state = static_cast<State>(head.state);
      return clique_->entered(*comm_);
    case Kind::abort:
      return clique_->abort(*comm_);
    default:
      nccl_fail("a message that no rank sends");
  }
}

void NcclGuest::join(const NcclMessage::Head& head) {
  clique_ = &NcclLocalClique::of(head.number, head.rank, head.ranks);
  comm_ = &new_comm(*clique_, head.rank, head.device);
  comm_->guest = this;
  clique_->join(*comm_);
  wake_waiting_hosts();
}

void NcclGuest::post(const NcclMessage::Head& head) {
  comm_->first_of_kind.reset();
  const auto transfer = std::make_shared<Transfer>();
  const NcclBytes bytes = buffer_bytes(head.call, comm_->rank, clique_->size());
  transfer->send.resize(bytes.send);
  transfer->recv.resize(bytes.recv);
  NcclCall call = head.call;
  call.send = transfer->send.data();
  call.recv = transfer->recv.data();
  const auto come = [this, transfer, number = head.number] {
    if (!transfer->here && !std::exchange(transfer->asked, true)) send(Kind::come, number);
    return transfer->here;
  };
  const auto done = [this, transfer, number = head.number] {
    send(Kind::result, number, std::move(transfer->recv));
    transfer->round.reset();
    transfers_.erase(number);
  };
  transfer->round = clique_->add(comm_->rank, {call, come, done});
  transfers_[head.number] = transfer;
  wake_waiting_hosts();
}

void NcclGuest::take(const NcclMessage& message) {
  const std::shared_ptr<Transfer> transfer = transfers_.at(message.head.number);
  if (message.data.size() != transfer->send.size()) nccl_fail("a call's data has another size");
  if (!message.data.empty()) {
    std::memcpy(transfer->send.data(), message.data.data(), message.data.size());
  }
  transfer->here = true;
  transfer->round->wanted = true;
  wake_waiting_hosts();
}

void NcclGuest::leave() {
  connection_ = nullptr;
  if (comm_ == nullptr || comm_->has_ended()) return;
  comm_->state = State::ended;
  clique_->abort(*comm_);
}

void NcclGuest::tell() {
  NcclMessage status = {{Kind::status, clique_->number()}};
  status.head.whole = clique_->whole();
  status.head.finalized = clique_->finalized();
  status.head.error = comm_->error;
  const std::vector<NcclLink> links = clique_->links(comm_->rank);
  status.head.links = links.size();
  append(status.data, links.data(), links.size() * sizeof(NcclLink));
  append(status.data, comm_->last_error.data(), comm_->last_error.size());
  if (connection_) connection_->send(std::move(status));
}

void NcclGuest::send(Kind kind, uint64_t number, std::vector<std::byte> data) {
  if (connection_) connection_->send({{kind, number}, std::move(data)});
}

}  // namespace emulator
