#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/range.h"
#include "parallel/communicators/collective_call.h"

namespace tessera {

/// A term of a reduction (parallel/communicators/reduce.h): the input of a member's call, or values
/// in this process.
struct ReduceSource {
  static constexpr size_t kNoMember = std::numeric_limits<size_t>::max();

  Range ranks = {};
  size_t member = kNoMember;
  const std::byte* data = nullptr;  ///< of the first reduced element, if there is no member
  DType dtype = DType::f32;
};

/// The calls of a collective's ranks on one host, seen by one of them, which copies from and to the
/// memory of the others on all threads of the calling thread's team. Errors of copies are kept
/// until raise(). All of `calls`, `processes` and `ranks` must outlive this object.
class PeerCalls {
 public:
  /// `calls` has every member's call. If `processes` is empty, all members are threads of this
  /// process; otherwise it has their processes. `ranks` are the members' numbers in their group,
  /// ascending; if it is empty, they are counted from 0.
  PeerCalls(std::span<const CollectiveCall> calls, std::span<const pid_t> processes,
            std::span<const int> ranks, size_t me)
      : calls_(calls), processes_(processes), ranks_(ranks), me_(me) {}

  size_t size() const { return calls_.size(); }
  size_t me() const { return me_; }
  const CollectiveCall& call(size_t member) const { return calls_[member]; }
  const CollectiveCall& mine() const { return calls_[me_]; }
  int rank_of(size_t member) const {
    return ranks_.empty() ? static_cast<int>(member) : ranks_[member];
  }

  /// The input of a member's call as a source.
  ReduceSource input_of(size_t member) const {
    const int rank = rank_of(member);
    return {{rank, rank + 1}, member, nullptr, mine().input.dtype()};
  }

  /// Reduces the elements `range` of the sources into `output`, which has the dtype `result`, and
  /// with `for_all` into the same elements of the other members' outputs. The sources are in the
  /// order of ranks and without gaps.
  void reduce(std::span<const ReduceSource> sources, Range range, DType result, std::byte* output,
              bool for_all);

  /// Copies `bytes` of a member's memory.
  void read(size_t member, const std::byte* from, std::byte* to, int64_t bytes);

  /// Copies the elements `range` of this rank's output to the other members' outputs.
  void distribute(Range range);

  /// Copies the members' inputs of an all-gather to their places in this rank's output.
  void gather_inputs();

  /// Throws the first error of a copy.
  void raise() const;

 private:
  bool is_here(size_t member) const { return processes_.empty() || member == me_; }
  void note(size_t member, int error);

  std::span<const CollectiveCall> calls_;
  std::span<const pid_t> processes_;
  std::span<const int> ranks_;
  size_t me_;
  std::atomic<uint64_t> first_error_{0};
};

/// The address of an element.
std::byte* address_of(const Tensor& tensor, int64_t element);

/// The elements of slice `slice` of an all-reduce of `tensor` by `slices` ranks. Slices start at
/// cache lines, so that ranks that write neighboring ones do not share a line.
Range all_reduce_slice(const Tensor& tensor, size_t slices, size_t slice);

}  // namespace tessera
