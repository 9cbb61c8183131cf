#include "parallel/communicators/peer_calls.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "core/process_stat.h"
#include "core/threads/parallel_for.h"
#include "parallel/communicators/host/peer_memory.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

/// Whether a process is gone, or a zombie, within two seconds.
bool ends_soon(pid_t process) {
  for (int look = 0; look < 200; ++look) {
    const auto stat = read_process_stat(process);
    if (!stat || stat->state == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Bytes read from all other ranks at a time; they stay in a core's L2 cache until the result is
/// written.
constexpr int64_t kScratchBytes = 256 * 1024;
/// Smallest copy per system call; below it, the call's own cost dominates.
constexpr int64_t kLeastChunk = 16 * 1024;
/// Slices and chunks start at cache lines.
constexpr int64_t kLine = 64;

}  // namespace

std::byte* address_of(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         element * static_cast<int64_t>(size_of(tensor.dtype()));
}

Range all_reduce_slice(const Tensor& tensor, size_t slices, size_t slice) {
  const int64_t count = tensor.numel();
  const int64_t step = kLine / static_cast<int64_t>(size_of(tensor.dtype()));
  const auto cut = [&](size_t part) {
    const auto lines = ceil_div(count, step) * static_cast<int64_t>(part);
    return std::min(count, lines / static_cast<int64_t>(slices) * step);
  };
  return {cut(slice), cut(slice + 1)};
}

void PeerCalls::reduce(std::span<const ReduceSource> sources, Range range, DType result,
                       std::byte* output, bool for_all) {
  const DType dtype = mine().output.dtype();
  const auto element = static_cast<int64_t>(size_of(dtype));
  const auto result_element = static_cast<int64_t>(size_of(result));
  const auto others = std::max(static_cast<int64_t>(size()) - 1, int64_t{1});
  const int64_t chunk_bytes = std::max(kScratchBytes / others, kLeastChunk) / kLine * kLine;
  const int64_t chunk = chunk_bytes / element;
  parallel_for(ceil_div(range.size(), chunk), 1, [&](int64_t first, int64_t end) {
    thread_local std::vector<std::byte> scratch;
    if (!processes_.empty()) scratch.resize(static_cast<size_t>(chunk_bytes * others));
    std::vector<ReduceTerm> terms(sources.size());
    std::vector<void*> outputs;
    for (int64_t i = first; i < end; ++i) {
      const int64_t begin = range.begin + i * chunk;
      const int64_t count = std::min(chunk, range.end - begin);
      std::byte* place = scratch.data();
      outputs.assign(1, output + (begin - range.begin) * result_element);
      for (size_t member = 0; for_all && member < size(); ++member) {
        if (member == me_ || !is_here(member)) continue;
        outputs.push_back(address_of(calls_[member].output, begin));
      }
      for (size_t term = 0; term < sources.size(); ++term) {
        const ReduceSource& source = sources[term];
        terms[term] = {nullptr, source.ranks, source.dtype};
        if (source.member == ReduceSource::kNoMember) {
          terms[term].data =
              source.data + (begin - range.begin) * static_cast<int64_t>(size_of(source.dtype));
          continue;
        }
        const std::byte* input = address_of(calls_[source.member].input, begin);
        terms[term].data = input;
        if (is_here(source.member)) continue;
        note(source.member, read_peer(processes_[source.member], input, place,
                                      static_cast<size_t>(count * element)));
        terms[term].data = place;
        place += chunk_bytes;
      }
      reduce_terms(dtype, mine().op, terms, result, outputs, count);
      for (size_t member = 0; for_all && member < size(); ++member) {
        if (is_here(member)) continue;
        note(member,
             write_peer(processes_[member], outputs[0], address_of(calls_[member].output, begin),
                        static_cast<size_t>(count * element)));
      }
    }
  });
}

void PeerCalls::read(size_t member, const std::byte* from, std::byte* to, int64_t bytes) {
  if (from == to && is_here(member)) return;  // in place
  parallel_for(bytes, kScratchBytes, [&](int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    if (is_here(member)) {
      std::memcpy(to + begin, from + begin, count);
    } else {
      note(member, read_peer(processes_[member], from + begin, to + begin, count));
    }
  });
}

// Each rank starts with its own part and then its neighbor's, so that not all read from the same
// rank.
void PeerCalls::gather_inputs() {
  const Tensor& part = mine().input;
  for (size_t i = 0; i < size(); ++i) {
    const size_t member = (me_ + i) % size();
    read(member, address_of(calls_[member].input, 0),
         address_of(mine().output, rank_of(member) * part.numel()),
         static_cast<int64_t>(part.bytes()));
  }
}

void PeerCalls::distribute(Range range) {
  const auto element = static_cast<int64_t>(size_of(mine().output.dtype()));
  const std::byte* from = address_of(mine().output, range.begin);
  for (size_t i = 1; i < size(); ++i) {
    const size_t member = (me_ + i) % size();
    std::byte* to = address_of(calls_[member].output, range.begin);
    parallel_for(range.size() * element, kScratchBytes, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(end - begin);
      if (is_here(member)) {
        std::memcpy(to + begin, from + begin, count);
      } else {
        note(member, write_peer(processes_[member], from + begin, to + begin, count));
      }
    });
  }
}

// Keeps the first error on any thread, because parallel_for's body may not throw.
void PeerCalls::note(size_t member, int error) {
  uint64_t none = 0;
  if (error != 0) first_error_.compare_exchange_strong(none, member << 32 | uint32_t(error));
}

void PeerCalls::raise() const {
  const uint64_t first = first_error_.load();
  if (first == 0) return;
  const int error = static_cast<int>(first & 0xffffffff);
  const pid_t process = processes_[first >> 32];
  // A process that is being killed, or fails itself, loses memory before it is gone.
  if (error == ESRCH || (error == EFAULT && ends_soon(process)))
    throw PeerError(fmt::format("process {}, another rank, has ended", process));
  fail("the memory of process {}, another rank, cannot be reached: {}", process,
       std::generic_category().message(error));
}

}  // namespace tessera
