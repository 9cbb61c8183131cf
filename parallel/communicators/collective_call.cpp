#include "parallel/communicators/collective_call.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "core/range.h"
#include "core/threads/parallel_for.h"
#include "parallel/communicators/host/peer_memory.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

/// Bytes read from all other ranks at a time; they stay in a core's L2 cache until the result is
/// written.
constexpr int64_t kScratchBytes = 256 * 1024;
/// Smallest copy per system call; below it, the call's own cost dominates.
constexpr int64_t kLeastChunk = 16 * 1024;
/// Slices and chunks start at cache lines.
constexpr int64_t kLine = 64;

std::byte* address_of(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         element * static_cast<int64_t>(size_of(tensor.dtype()));
}

/// One part of a collective, and the memory of the ranks as seen by who does it.
class Part {
 public:
  Part(std::span<const CollectiveCall> calls, std::span<const pid_t> processes, int part)
      : calls_(calls), processes_(processes), part_(static_cast<size_t>(part)) {}

  void run() {
    switch (mine().collective) {
      case Collective::all_reduce:
        all_reduce();
        break;
      case Collective::all_gather:
        all_gather();
        break;
      case Collective::reduce_scatter:
        reduce_scatter();
        break;
      case Collective::broadcast:
        if (part_ != root())
          read(root(), address_of(calls_[root()].input, 0), address_of(mine().output, 0), bytes());
        break;
      case Collective::barrier:
      case Collective::send:
      case Collective::recv:
      case Collective::split:
        break;
    }
    raise();
  }

 private:
  size_t size() const { return calls_.size(); }
  size_t root() const { return static_cast<size_t>(calls_[0].root); }
  const CollectiveCall& mine() const { return calls_[part_]; }
  int64_t bytes() const { return static_cast<int64_t>(mine().input.bytes()); }
  bool is_here(size_t rank) const { return processes_.empty() || rank == part_; }

  void all_reduce() {
    // Slices start at cache lines, so that ranks that write neighboring ones do not share a line.
    const int64_t count = mine().output.numel();
    const int64_t step = kLine / static_cast<int64_t>(size_of(mine().output.dtype()));
    const auto cut = [&](size_t part) {
      const auto lines = ceil_div(count, step) * static_cast<int64_t>(part);
      return std::min(count, lines / static_cast<int64_t>(size()) * step);
    };
    const Range slice{cut(part_), cut(part_ + 1)};
    reduce(slice, address_of(mine().output, slice.begin), /*for_all=*/true);
  }

  void reduce_scatter() {
    const int64_t count = mine().output.numel();
    const auto part = static_cast<int64_t>(part_);
    reduce({part * count, (part + 1) * count}, address_of(mine().output, 0), /*for_all=*/false);
  }

  void all_gather() {
    // Each rank starts with its own part and then its neighbor's, so that not all read from the
    // same rank.
    for (size_t i = 0; i < size(); ++i) {
      const size_t rank = (part_ + i) % size();
      read(rank, address_of(calls_[rank].input, 0),
           address_of(mine().output, static_cast<int64_t>(rank) * mine().input.numel()), bytes());
    }
  }

  /// Reduces the elements `range` of all ranks' inputs into `output` and, with `for_all`, into the
  /// other ranks' outputs too.
  void reduce(Range range, std::byte* output, bool for_all) {
    const DType dtype = mine().output.dtype();
    const auto element = static_cast<int64_t>(size_of(dtype));
    const auto others = std::max(static_cast<int64_t>(size()) - 1, int64_t{1});
    const int64_t chunk_bytes = std::max(kScratchBytes / others, kLeastChunk) / kLine * kLine;
    const int64_t chunk = chunk_bytes / element;
    parallel_for(ceil_div(range.size(), chunk), 1, [&](int64_t first, int64_t end) {
      thread_local std::vector<std::byte> scratch;
      if (!processes_.empty()) scratch.resize(static_cast<size_t>(chunk_bytes * others));
      std::vector<const void*> inputs(size());
      std::vector<void*> outputs;
      for (int64_t i = first; i < end; ++i) {
        const int64_t begin = range.begin + i * chunk;
        const int64_t count = std::min(chunk, range.end - begin);
        std::byte* place = scratch.data();
        outputs.assign(1, output + (begin - range.begin) * element);
        for (size_t rank = 0; rank < size(); ++rank) {
          const std::byte* input = address_of(calls_[rank].input, begin);
          inputs[rank] = input;
          if (is_here(rank)) {
            if (for_all && rank != part_) outputs.push_back(address_of(calls_[rank].output, begin));
            continue;
          }
          note(rank,
               read_peer(processes_[rank], input, place, static_cast<size_t>(count * element)));
          inputs[rank] = place;
          place += chunk_bytes;
        }
        reduce_elements(dtype, mine().op, inputs, outputs, count);
        for (size_t rank = 0; for_all && rank < size(); ++rank) {
          if (is_here(rank)) continue;
          note(rank,
               write_peer(processes_[rank], outputs[0], address_of(calls_[rank].output, begin),
                          static_cast<size_t>(count * element)));
        }
      }
    });
  }

  /// Copies `bytes` of `rank`'s memory, on all threads.
  void read(size_t rank, const std::byte* from, std::byte* to, int64_t bytes) {
    if (from == to && is_here(rank)) return;  // in place
    parallel_for(bytes, kScratchBytes, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(end - begin);
      if (is_here(rank)) {
        std::memcpy(to + begin, from + begin, count);
      } else {
        note(rank, read_peer(processes_[rank], from + begin, to + begin, count));
      }
    });
  }

  /// Keeps the first error on any thread, because parallel_for's body may not throw.
  void note(size_t rank, int error) {
    uint64_t none = 0;
    if (error != 0) first_error_.compare_exchange_strong(none, rank << 32 | uint32_t(error));
  }

  void raise() const {
    const uint64_t first = first_error_.load();
    if (first == 0) return;
    const int error = static_cast<int>(first & 0xffffffff);
    if (error == ESRCH) {
      throw PeerError(fmt::format("rank {} of this group has ended", first >> 32));
    }
    fail("the memory of rank {} of this group cannot be reached: {}", first >> 32,
         std::generic_category().message(error));
  }

  std::span<const CollectiveCall> calls_;
  std::span<const pid_t> processes_;
  size_t part_;
  std::atomic<uint64_t> first_error_{0};
};

std::string brief(const Tensor& tensor) {
  return fmt::format("{} {}", to_string(tensor.dtype()), to_string(tensor.shape()));
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  auto name =
      fmt::format("{}{}", to_string(call.collective), call.wait == Wait::later ? "_async" : "");
  switch (call.collective) {
    case Collective::all_reduce:
      return fmt::format("{}({}) of {}", name, to_string(call.op), brief(call.input));
    case Collective::reduce_scatter:
      return fmt::format("{}({}) of {} into {}", name, to_string(call.op), brief(call.input),
                         brief(call.output));
    case Collective::all_gather:
      return fmt::format("{} of {} into {}", name, brief(call.input), brief(call.output));
    case Collective::broadcast:
      return fmt::format("{} from rank {} of {}", name, call.root, brief(call.input));
    case Collective::send:
    case Collective::recv:
    case Collective::barrier:
    case Collective::split:
      break;
  }
  return name;
}

bool agree(const CollectiveCall& a, const CollectiveCall& b) {
  const auto alike = [](const Tensor& s, const Tensor& t) {
    return s.dtype() == t.dtype() && s.shape() == t.shape();
  };
  return a.collective == b.collective && a.wait == b.wait && a.op == b.op && a.root == b.root &&
         alike(a.input, b.input) && alike(a.output, b.output);
}

void run_part(std::span<const CollectiveCall> calls, std::span<const pid_t> processes, int part) {
  Part(calls, processes, part).run();
}

}  // namespace tessera
