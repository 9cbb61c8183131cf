#include "parallel/communicators/communicator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/trace.h"
#include "parallel/communicators/collective_call.h"
#include "parallel/communicators/pending_trace.h"
#include "parallel/communicators/recorded_call.h"

namespace tessera {
namespace {

using Message = Communicator::Message;

bool overlap(const Tensor& a, const Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.raw());
  const auto* b_begin = static_cast<const std::byte*>(b.raw());
  const std::less<> before;  // also orders pointers into different allocations
  return before(a_begin, b_begin + b.bytes()) && before(b_begin, a_begin + a.bytes());
}

/// Checks that `whole` has `ranks` times the elements of `part` and that the two can be input and
/// output of one collective.
void check_pair(const Tensor& part, const char* part_name, const Tensor& whole,
                const char* whole_name, int ranks, const char* op) {
  require(part.dtype() == whole.dtype() && part.device() == whole.device(),
          "{}: {} is {}, but {} is {}: both must have one dtype and be on one device", op,
          part_name, describe(part), whole_name, describe(whole));
  require(
      whole.numel() == part.numel() * ranks,
      "{}: {} is {} and {} is {}, but in a group of {} rank{} {} must have {} × {} = {} elements",
      op, part_name, describe(part), whole_name, describe(whole), ranks, ranks == 1 ? "" : "s",
      whole_name, ranks, part.numel(), ranks * part.numel());
}

void check_disjoint(const Tensor& a, const char* a_name, const Tensor& b, const char* b_name,
                    const char* op) {
  require(a.device().is_meta() || !overlap(a, b), "{}: {} {} and {} {} must not overlap in memory",
          op, a_name, describe(a), b_name, describe(b));
}

/// Bytes for a timeline, which starts before the arguments are checked.
int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.bytes()) : 0;
}

/// The other ranks of an exchange, each once, with the numbers of messages.
std::vector<FlightPeer> peers_of(std::span<const Message> messages) {
  std::vector<FlightPeer> peers;
  for (const Message& message : messages) {
    auto found = std::ranges::find(peers, message.peer, &FlightPeer::rank);
    if (found == peers.end()) found = peers.insert(found, {message.peer});
    ++(message.is_send() ? found->sent : found->received);
  }
  return peers;
}

/// Throws if a tensor that receives overlaps another one.
void check_disjoint(std::vector<Message> messages, const char* op) {
  const auto begin_of = [](const Message& message) {
    return static_cast<const std::byte*>(message.tensor.raw());
  };
  const auto end_of = [&](const Message& message) {
    return begin_of(message) + message.tensor.bytes();
  };
  std::ranges::sort(messages, std::less<>(), begin_of);
  const Message* furthest = nullptr;  // the one before that reaches furthest
  for (const Message& message : messages) {
    if (furthest != nullptr && end_of(*furthest) > begin_of(message)) {
      require(furthest->is_send() && message.is_send(),
              "{}: {} for rank {} and {} for rank {} overlap in memory: give what is received its "
              "own memory",
              op, describe(furthest->tensor), furthest->peer, describe(message.tensor),
              message.peer);
      if (end_of(message) <= end_of(*furthest)) continue;
    }
    furthest = &message;
  }
}

/// Names, traces and records the start of a collective. One that is waited for at once is not
/// traced and recorded here: the blocking call does that.
class Start {
 public:
  Start(const Communicator& group, Collective kind, const char* async, int64_t bytes, Wait wait)
      : group_(group),
        kind_(kind),
        blocking_(to_string(kind).data()),
        async_(async),
        bytes_(bytes),
        wait_(wait) {
    if (wait == Wait::later) range_.emplace(async, bytes);
  }

  const char* name() const { return wait_ == Wait::at_once ? blocking_ : async_; }

  /// `messages` are those of an exchange with other ranks.
  template <typename Body>
  std::unique_ptr<PendingCollective> operator()(Body&& body,
                                                std::span<const Message> messages = {}) const {
    if (wait_ == Wait::at_once) return body();
    const int64_t bytes = messages.empty() ? bytes_ : bytes_of(messages);
    return RecordedCall::start_pending(
        group_, kind_, bytes, [&] { return start_traced(blocking_, bytes, body); },
        peers_of(messages));
  }

 private:
  const Communicator& group_;
  Collective kind_;
  const char* blocking_;
  const char* async_;
  int64_t bytes_;
  Wait wait_;
  std::optional<TraceRange> range_;
};

}  // namespace

// True if there are elements to move or to count. Throws if the tensor cannot be moved at all.
bool Communicator::ready(const Tensor& tensor, const char* op, const char* argument) const {
  require(tensor.defined(), "{}: {} is an undefined tensor", op, argument);
  const bool is_meta = tensor.device().is_meta();
  if (tensor.numel() == 0 || (is_meta && !takes(tensor.device()))) return false;
  require(takes(tensor.device()), "{}: {} is {}, but a communicator of kind {} cannot move it", op,
          argument, describe(tensor), name());
  require(is_meta || tensor.raw() != nullptr, "{}: {} is {}, but has no data", op, argument,
          describe(tensor));
  return true;
}

void Communicator::check_peer(int peer, const char* op, const char* argument) const {
  require(0 <= peer && peer < size_, "{}: {} is {}, but the ranks of this group are 0 to {}", op,
          argument, peer, size_ - 1);
}

void Communicator::all_reduce(Tensor tensor, ReduceOp op) {
  const RecordedCall recorded(*this, Collective::all_reduce, bytes_of(tensor));
  const TraceRange range("all_reduce", bytes_of(tensor));
  all_reduce_async(tensor, op, Wait::at_once)->wait();
}

std::unique_ptr<PendingCollective> Communicator::all_reduce_async(Tensor tensor, ReduceOp op,
                                                                  Wait wait) {
  const Start start(*this, Collective::all_reduce, "all_reduce_async", bytes_of(tensor), wait);
  if (!ready(tensor, start.name(), "tensor")) return std::make_unique<CompletedCollective>();
  return start([&] { return do_all_reduce(tensor, op, wait); });
}

bool Communicator::is_own_part(const Tensor& part, const Tensor& whole) const {
  return part.raw() ==
         static_cast<std::byte*>(whole.raw()) + static_cast<size_t>(rank_) * part.bytes();
}

// These two return whether there is work; an in-place call in a group of one has none.
bool Communicator::ready_to_gather(const Tensor& input, const Tensor& output,
                                   const char* op) const {
  const bool in_ready = ready(input, op, "input");
  const bool out_ready = ready(output, op, "output");
  check_pair(input, "input", output, "output", size_, op);
  if (!in_ready || !out_ready) return false;
  if (is_own_part(input, output)) return size_ > 1;
  check_disjoint(input, "input", output, "output", op);
  return true;
}

bool Communicator::ready_to_scatter(const Tensor& input, const Tensor& output,
                                    const char* op) const {
  const bool in_ready = ready(input, op, "input");
  const bool out_ready = ready(output, op, "output");
  check_pair(output, "output", input, "input", size_, op);
  if (!in_ready || !out_ready) return false;
  if (is_own_part(output, input)) return size_ > 1;
  check_disjoint(input, "input", output, "output", op);
  return true;
}

void Communicator::all_gather(const Tensor& input, Tensor output) {
  const RecordedCall recorded(*this, Collective::all_gather, bytes_of(output));
  const TraceRange range("all_gather", bytes_of(output));
  all_gather_async(input, output, Wait::at_once)->wait();
}

std::unique_ptr<PendingCollective> Communicator::all_gather_async(const Tensor& input,
                                                                  Tensor output, Wait wait) {
  const Start start(*this, Collective::all_gather, "all_gather_async", bytes_of(output), wait);
  if (!ready_to_gather(input, output, start.name())) {
    return std::make_unique<CompletedCollective>();
  }
  return start([&] { return do_all_gather(input, output, wait); });
}

void Communicator::reduce_scatter(const Tensor& input, Tensor output, ReduceOp op) {
  const RecordedCall recorded(*this, Collective::reduce_scatter, bytes_of(input));
  const TraceRange range("reduce_scatter", bytes_of(input));
  reduce_scatter_async(input, output, op, Wait::at_once)->wait();
}

std::unique_ptr<PendingCollective> Communicator::reduce_scatter_async(const Tensor& input,
                                                                      Tensor output, ReduceOp op,
                                                                      Wait wait) {
  const Start start(*this, Collective::reduce_scatter, "reduce_scatter_async", bytes_of(input),
                    wait);
  if (!ready_to_scatter(input, output, start.name())) {
    return std::make_unique<CompletedCollective>();
  }
  return start([&] { return do_reduce_scatter(input, output, op, wait); });
}

void Communicator::broadcast(Tensor tensor, int root) {
  const RecordedCall recorded(*this, Collective::broadcast, bytes_of(tensor));
  const TraceRange range("broadcast", bytes_of(tensor));
  check_peer(root, "broadcast", "root");
  if (ready(tensor, "broadcast", "tensor")) do_broadcast(tensor, root);
}

std::vector<Message> Communicator::ready_to_exchange(std::span<const Message> messages,
                                                     const char* op) const {
  std::vector<Message> all, others, to_self, from_self;
  for (const Message& message : messages) {
    const char* what = message.is_send() ? "the tensor to send" : "the tensor to receive";
    check_peer(message.peer, op, "the peer of a message");
    const bool has_data = ready(message.tensor, op, what);
    require(message.tensor.device() == messages[0].tensor.device(),
            "{}: {} is {} and another one is {}: all must be on one device", op, what,
            describe(message.tensor), describe(messages[0].tensor));
    if (message.tensor.numel() == 0) continue;
    if (message.peer == rank_) {
      (message.is_send() ? to_self : from_self).push_back(message);
    } else if (has_data) {
      others.push_back(message);
    }
    all.push_back(message);
  }
  require(to_self.size() == from_self.size(),
          "{}: rank {} sends {} messages to itself, but receives {} from itself: pass both ends of "
          "each in one call",
          op, rank_, to_self.size(), from_self.size());
  const bool is_meta = !all.empty() && all[0].tensor.device().is_meta();
  if (!is_meta) check_disjoint(std::move(all), op);
  for (size_t i = 0; i < to_self.size(); ++i) {
    const Tensor& sent = to_self[i].tensor;
    const Tensor& received = from_self[i].tensor;
    require(match(sent, received), "{}", mismatch(rank_, sent, rank_, received));
    if (sent.device().is_cpu()) {
      std::memcpy(received.raw(), sent.raw(), sent.bytes());
    } else if (!is_meta) {
      copy(sent, received.view(sent.shape()));
    }
  }
  return others;
}

void Communicator::exchange(std::span<const Message> messages) {
  const TraceRange range("exchange", bytes_of(messages));
  const std::vector<Message> ready = ready_to_exchange(messages, "exchange");
  if (ready.empty()) return;
  const RecordedCall recorded(*this, Collective::exchange, bytes_of(ready), peers_of(ready));
  do_exchange(ready, Wait::at_once)->wait();
}

std::unique_ptr<PendingCollective> Communicator::exchange_async(std::span<const Message> messages,
                                                                Wait wait) {
  const Start start(*this, Collective::exchange, "exchange_async", bytes_of(messages), wait);
  const std::vector<Message> ready = ready_to_exchange(messages, start.name());
  if (ready.empty()) return std::make_unique<CompletedCollective>();
  return start([&] { return do_exchange(ready, wait); }, ready);
}

std::vector<Message> Communicator::messages_of(const Tensor& input,
                                               std::span<const int64_t> send_rows,
                                               const Tensor& output,
                                               std::span<const int64_t> recv_rows) const {
  const auto rows_of = [](const Tensor& tensor) {
    return tensor.shape().rank() == 0 ? 0 : tensor.dim(0);
  };
  const auto check = [&](const Tensor& tensor, std::span<const int64_t> rows, const char* name) {
    require(tensor.defined(), "all_to_all: {} is an undefined tensor", name);
    const bool valid = std::ranges::all_of(rows, [](int64_t count) { return count >= 0; });
    const int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    require(valid && std::ssize(rows) == size_ && sum == rows_of(tensor),
            "all_to_all: {} is {}, but its counts are {}: pass one count ≥ 0 for each rank, {} in "
            "all, which sum to its rows",
            name, describe(tensor), fmt::join(rows, ", "), size_);
  };
  check(input, send_rows, "input");
  check(output, recv_rows, "output");
  // An empty tensor may have rows of any size.
  require(input.numel() == 0 || output.numel() == 0 ||
              (input.dtype() == output.dtype() &&
               input.numel() / rows_of(input) == output.numel() / rows_of(output)),
          "all_to_all: input is {} and output is {}: both must have one dtype and rows of one size",
          describe(input), describe(output));
  // Each rank begins with its neighbor, so that not all send to the same one.
  std::vector<int64_t> sent(send_rows.size() + 1), received(recv_rows.size() + 1);
  std::partial_sum(send_rows.begin(), send_rows.end(), sent.begin() + 1);
  std::partial_sum(recv_rows.begin(), recv_rows.end(), received.begin() + 1);
  std::vector<Message> messages;
  for (int i = 0; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    const int from = (rank_ + size_ - i) % size_;
    const auto t = static_cast<size_t>(to), f = static_cast<size_t>(from);
    messages.push_back(Message::send(input.slice(sent[t], sent[t + 1]), to));
    messages.push_back(Message::recv(output.slice(received[f], received[f + 1]), from));
  }
  return messages;
}

void Communicator::all_to_all(const Tensor& input, std::span<const int64_t> send_rows,
                              Tensor output, std::span<const int64_t> recv_rows) {
  exchange(messages_of(input, send_rows, output, recv_rows));
}

std::unique_ptr<PendingCollective> Communicator::all_to_all_async(
    const Tensor& input, std::span<const int64_t> send_rows, Tensor output,
    std::span<const int64_t> recv_rows, Wait wait) {
  return exchange_async(messages_of(input, send_rows, output, recv_rows), wait);
}

void Communicator::barrier() {
  const RecordedCall recorded(*this, Collective::barrier, 0);
  do_barrier();
}

int Communicator::recorded_group(FlightRecorder& recorder) const {
  if (recorder_ != recorder.id()) {
    recorder_ = recorder.id();
    recorded_group_ = recorder.add_group(label_.name, label_.first, label_.stride, size_, rank_);
  }
  return recorded_group_;
}

int64_t bytes_of(std::span<const Message> messages) {
  int64_t sent = 0, received = 0;
  for (const Message& message : messages) {
    (message.is_send() ? sent : received) += bytes_of(message.tensor);
  }
  return std::max(sent, received);
}

}  // namespace tessera
