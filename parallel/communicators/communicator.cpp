#include "parallel/communicators/communicator.h"

#include <cstddef>
#include <functional>
#include <optional>

#include "core/error.h"
#include "core/trace/trace.h"
#include "parallel/communicators/pending_trace.h"
#include "parallel/communicators/recorded_call.h"

namespace tessera {
namespace {

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

  template <typename Body>
  std::unique_ptr<PendingCollective> operator()(Body&& body) const {
    if (wait_ == Wait::at_once) return body();
    return RecordedCall::start_pending(group_, kind_, bytes_,
                                       [&] { return start_traced(blocking_, bytes_, body); });
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

void Communicator::send(const Tensor& tensor, int destination) {
  const TraceRange range("send", bytes_of(tensor));
  check_peer(destination, "send", "destination");
  require(destination != rank_, "send: rank {} cannot send to itself", rank_);
  const RecordedCall recorded(*this, Collective::send, bytes_of(tensor), destination);
  if (ready(tensor, "send", "tensor")) do_send(tensor, destination);
}

void Communicator::recv(Tensor tensor, int source) {
  const TraceRange range("recv", bytes_of(tensor));
  check_peer(source, "recv", "source");
  require(source != rank_, "recv: rank {} cannot receive from itself", rank_);
  const RecordedCall recorded(*this, Collective::recv, bytes_of(tensor), source);
  if (ready(tensor, "recv", "tensor")) do_recv(tensor, source);
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

}  // namespace tessera
