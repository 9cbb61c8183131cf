#include "parallel/communicators/host/host_call.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

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

/// The first copy error on any thread, because parallel_for's body may not throw.
class FirstError {
 public:
  void note(int rank, int error) {
    uint64_t none = 0;
    if (error != 0) first_.compare_exchange_strong(none, uint64_t(rank) << 32 | uint32_t(error));
  }
  void raise() const {
    const uint64_t first = first_.load();
    if (first == 0) return;
    const int error = static_cast<int>(first & 0xffffffff);
    if (error == ESRCH) {
      throw PeerError(fmt::format("rank {} of this group has ended", first >> 32));
    }
    fail("the memory of rank {} of this group cannot be reached: {}", first >> 32,
         std::generic_category().message(error));
  }

 private:
  std::atomic<uint64_t> first_{0};
};

/// Rank `rank`'s slice of `count` elements.
Range slice_of(int64_t count, int64_t element_bytes, int ranks, int rank) {
  const int64_t step = kLine / element_bytes;
  const int64_t lines = ceil_div(count, step);
  const auto cut = [&](int64_t part) { return std::min(count, lines * part / ranks * step); };
  return {cut(rank), cut(rank + 1)};
}

/// Reduces the elements `range` of all ranks' inputs into this rank's `output` and, with `for_all`,
/// into the other ranks' outputs too.
void reduce(const HostCallOfAll& all, Range range, std::byte* output, bool for_all) {
  const auto me = static_cast<size_t>(all.rank);
  const HostCall& mine = all.calls[me];
  const auto element = static_cast<int64_t>(size_of(mine.dtype));
  const auto ranks = static_cast<int64_t>(all.calls.size());
  const int64_t chunk_bytes =
      std::max(kScratchBytes / std::max<int64_t>(ranks - 1, 1), kLeastChunk) / kLine * kLine;
  const int64_t chunk = chunk_bytes / element;
  FirstError error;
  parallel_for(ceil_div(range.size(), chunk), 1, [&](int64_t first, int64_t end) {
    thread_local std::vector<std::byte> scratch;
    scratch.resize(static_cast<size_t>(chunk_bytes * (ranks - 1)));
    std::vector<const void*> inputs(all.calls.size());
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = range.begin + i * chunk;
      const int64_t count = std::min(chunk, range.end - at);
      const auto bytes = static_cast<size_t>(count * element);
      std::byte* place = scratch.data();
      for (size_t rank = 0; rank < all.calls.size(); ++rank) {
        const std::byte* from = all.calls[rank].input + at * element;
        inputs[rank] = rank == me ? from : place;
        if (rank == me) continue;
        error.note(static_cast<int>(rank), read_peer(all.processes[rank], from, place, bytes));
        place += chunk_bytes;
      }
      void* to = output + (at - range.begin) * element;
      reduce_elements(mine.dtype, mine.op, inputs, {&to, 1}, count);
      for (size_t rank = 0; for_all && rank < all.calls.size(); ++rank) {
        if (rank == me) continue;
        error.note(
            static_cast<int>(rank),
            write_peer(all.processes[rank], to, all.calls[rank].output + at * element, bytes));
      }
    }
  });
  error.raise();
}

void all_reduce(const HostCallOfAll& all) {
  const HostCall& mine = all.calls[static_cast<size_t>(all.rank)];
  if (mine.is_small()) {
    const std::vector<const void*> inputs(all.small.begin(), all.small.end());
    void* output = mine.output;
    reduce_elements(mine.dtype, mine.op, inputs, {&output, 1}, mine.count);
    return;
  }
  const auto element = static_cast<int64_t>(size_of(mine.dtype));
  const Range slice = slice_of(mine.count, element, static_cast<int>(all.calls.size()), all.rank);
  reduce(all, slice, mine.output + slice.begin * element, /*for_all=*/true);
}

void reduce_scatter(const HostCallOfAll& all) {
  const HostCall& mine = all.calls[static_cast<size_t>(all.rank)];
  const Range part{all.rank * mine.count, (all.rank + 1) * mine.count};
  reduce(all, part, mine.output, /*for_all=*/false);
}

/// Copies `bytes` from rank `root`, on all threads.
void read_from(const HostCallOfAll& all, int root, const std::byte* from, std::byte* to,
               int64_t bytes, FirstError& error) {
  parallel_for(bytes, kScratchBytes, [&](int64_t begin, int64_t end) {
    error.note(root, read_peer(all.processes[static_cast<size_t>(root)], from + begin, to + begin,
                               static_cast<size_t>(end - begin)));
  });
}

void all_gather(const HostCallOfAll& all) {
  const HostCall& mine = all.calls[static_cast<size_t>(all.rank)];
  const auto ranks = static_cast<int>(all.calls.size());
  const int64_t bytes = mine.bytes();
  std::byte* own = mine.output + all.rank * bytes;
  if (own != mine.input) std::memcpy(own, mine.input, static_cast<size_t>(bytes));
  FirstError error;
  // Each rank starts with its neighbor, so that not all read from the same rank.
  for (int i = 1; i < ranks; ++i) {
    const int rank = (all.rank + i) % ranks;
    read_from(all, rank, all.calls[static_cast<size_t>(rank)].input, mine.output + rank * bytes,
              bytes, error);
  }
  error.raise();
}

void broadcast(const HostCallOfAll& all) {
  const HostCall& mine = all.calls[static_cast<size_t>(all.rank)];
  if (mine.root == all.rank) return;
  FirstError error;
  read_from(all, mine.root, all.calls[static_cast<size_t>(mine.root)].input, mine.output,
            mine.bytes(), error);
  error.raise();
}

}  // namespace

std::string describe(const HostCall& call) {
  std::string text(to_string(call.collective));
  const bool reduces =
      call.collective == Collective::all_reduce || call.collective == Collective::reduce_scatter;
  if (reduces) text += fmt::format(" ({})", to_string(call.op));
  if (call.collective == Collective::broadcast) text += fmt::format(" from rank {}", call.root);
  if (call.collective == Collective::barrier) return text;
  return text + fmt::format(" of {} {}", call.count, to_string(call.dtype));
}

bool same_collective(const HostCall& a, const HostCall& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.count == b.count;
}

void do_host_call(const HostCallOfAll& call) {
  switch (call.calls[static_cast<size_t>(call.rank)].collective) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::all_gather:
      return all_gather(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::broadcast:
      return broadcast(call);
    case Collective::barrier:
    case Collective::send:
    case Collective::recv:
      return;
  }
}

}  // namespace tessera
