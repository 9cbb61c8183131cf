#include "parallel/communicators/host/host_exchange.h"

#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/peer_calls.h"

namespace tessera {
namespace {

/// Of messages between hosts: what is sent, what is expected, and the elements.
constexpr int kOfferTag = HostLink::kCallTags + 1;
constexpr int kAnswerTag = HostLink::kCallTags + 2;
constexpr int kDataTag = HostLink::kCallTags + 3;

}  // namespace

std::shared_ptr<HostExchange> HostExchanges::post(std::span<const Communicator::Message> messages) {
  auto exchange = std::make_shared<HostExchange>(messages.size());
  const std::lock_guard lock(posting_);
  for (const Communicator::Message& message : messages) {
    posted_.push_back({message, exchange});
    ++unfinished_;
    if (!is_here(message.peer)) ++between_hosts_;
  }
  return exchange;
}

bool HostExchanges::advance() {
  take_posted();
  bool any = false;
  for (auto& [pair, queue] : queues_) {
    while (!queue.empty()) {
      const Progress progress = advance(queue.front());
      any |= progress != Progress::nothing;
      if (progress != Progress::finished) break;
      // The caller may free the tensors as soon as no message is left.
      const std::shared_ptr<HostExchange> exchange = std::move(queue.front().exchange);
      queue.pop_front();
      if (!is_here(pair.first)) --between_hosts_;
      --unfinished_;
      --exchange->left;
    }
  }
  return any;
}

void HostExchanges::take_posted() {
  std::vector<Queued> posted;
  {
    const std::lock_guard lock(posting_);
    posted.swap(posted_);
  }
  for (Queued& queued : posted) {
    auto& queue = queues_[{queued.message.peer, queued.message.is_send()}];
    // Its transfers write to it, and a deque leaves it where it is.
    Queued& placed = queue.emplace_back(std::move(queued));
    if (!is_here(placed.message.peer)) describe_to_peer(placed);
  }
}

void HostExchanges::describe_to_peer(Queued& queued) {
  const auto& [kind, tensor, peer] = queued.message;
  const bool sends = queued.message.is_send();
  queued.mine = {static_cast<int64_t>(tensor.dtype()), tensor.numel()};
  queued.transfers = group_.link->start();
  queued.transfers->send(peer, sends ? kOfferTag : kAnswerTag, &queued.mine, sizeof(queued.mine));
  queued.transfers->receive(peer, sends ? kAnswerTag : kOfferTag, &queued.theirs,
                            sizeof(queued.theirs));
}

HostExchanges::Progress HostExchanges::advance(Queued& queued) {
  if (!is_here(queued.message.peer)) return move_between_hosts(queued);
  return queued.message.is_send() ? send_here(queued) : receive_here(queued);
}

HostExchanges::Progress HostExchanges::send_here(Queued& queued) {
  const HostLayout& layout = group_.layout;
  const auto me = static_cast<size_t>(layout.index_on_host(group_.rank));
  const auto peer = static_cast<size_t>(layout.index_on_host(queued.message.peer));
  HostSlot& slot = group_.members[me].outbox[peer];
  if (!queued.started) {
    slot.sent = queued.message.tensor;
    slot.refused = false;
    queued.started = true;
    ++slot.posted;
    group_.members[peer].event->notify();
    return Progress::some;
  }
  if (slot.taken.load() != slot.posted.load()) return Progress::nothing;
  if (slot.refused) refuse(queued, slot.expected);
  return Progress::finished;
}

HostExchanges::Progress HostExchanges::receive_here(Queued& queued) {
  const HostLayout& layout = group_.layout;
  const auto me = static_cast<size_t>(layout.index_on_host(group_.rank));
  const auto peer = static_cast<size_t>(layout.index_on_host(queued.message.peer));
  const Tensor& expected = queued.message.tensor;
  HostSlot& slot = group_.members[peer].outbox[me];
  if (slot.taken.load() == slot.posted.load()) return Progress::nothing;
  if (match(slot.sent, expected)) {
    PeerCalls peers({}, group_.processes, {}, me);
    peers.read(peer, address_of(slot.sent, 0), address_of(expected, 0),
               static_cast<int64_t>(expected.bytes()));
    peers.raise();
  } else {
    slot.expected = expected;
    slot.refused = true;
    refuse(queued, slot.sent);
  }
  ++slot.taken;
  group_.members[peer].event->notify();
  return Progress::finished;
}

HostExchanges::Progress HostExchanges::move_between_hosts(Queued& queued) {
  const Progress progress = queued.transfers->progress();
  if (progress != Progress::finished || queued.started) return progress;
  const auto& [kind, tensor, peer] = queued.message;
  const Tensor theirs(nullptr, {queued.theirs.elements}, static_cast<DType>(queued.theirs.dtype),
                      kMeta);
  if (!match(tensor, theirs)) {
    refuse(queued, theirs);
    return Progress::finished;
  }
  queued.started = true;
  queued.transfers = group_.link->start();
  if (queued.message.is_send()) {
    queued.transfers->send(peer, kDataTag, tensor.raw(), tensor.bytes());
  } else {
    queued.transfers->receive(peer, kDataTag, tensor.raw(), tensor.bytes());
  }
  return Progress::some;
}

void HostExchanges::refuse(const Queued& queued, const Tensor& theirs) {
  const auto& [kind, tensor, peer] = queued.message;
  HostExchange& exchange = *queued.exchange;
  if (exchange.failed) return;
  exchange.error =
      "exchange: " + (queued.message.is_send() ? mismatch(group_.rank, tensor, peer, theirs)
                                               : mismatch(peer, theirs, group_.rank, tensor));
  exchange.failed = true;
}

}  // namespace tessera
