#include "parallel/communicators/host/spanning_part.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "parallel/communicators/host/host_group.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

using Progress = Progressable::Progress;

/// The inputs of the members whose ranks are in `ranks`.
std::vector<ReduceSource> inputs_of(const PeerCalls& peers, Range ranks) {
  std::vector<ReduceSource> sources;
  for (size_t member = 0; member < peers.size(); ++member) {
    if (ranks.contains(peers.rank_of(member))) sources.push_back(peers.input_of(member));
  }
  return sources;
}

}  // namespace

SpanningPart::SpanningPart(const Group& group, uint64_t number, std::vector<CollectiveCall> calls,
                           std::vector<const std::byte*> small)
    : group_(group),
      number_(number),
      calls_(std::move(calls)),
      small_(std::move(small)),
      peers_(calls_, group.processes, group.layout.ranks_of(my_host()),
             static_cast<size_t>(group.layout.index_on_host(group.rank))),
      transfers_(group.link.start()) {
  switch (mine().collective) {
    case Collective::all_reduce:
      if (small_.empty()) {
        start_reduce();
      } else {
        start_small();
      }
      break;
    case Collective::reduce_scatter:
      start_reduce();
      break;
    case Collective::all_gather:
      peers_.gather_inputs();
      start_gather();
      break;
    case Collective::broadcast:
      start_scatter();
      break;
    case Collective::barrier:
      start_small();
      break;
    case Collective::exchange:
    case Collective::split:
      break;
  }
  peers_.raise();
}

SpanningPart::~SpanningPart() {
  transfers_ = nullptr;
  for (Buffer& buffer : scratch_) group_.spare.give_back(std::move(buffer));
}

Progress SpanningPart::advance() {
  Progress progress = Progress::nothing;
  while (step_ != Step::done) {
    const Progress messages = transfers_->progress();
    if (messages != Progress::finished) {
      return messages == Progress::some ? Progress::some : progress;
    }
    progress = Progress::some;
    transfers_ = group_.link.start();
    switch (step_) {
      case Step::reducing:
        end_reduce();
        break;
      case Step::summing_small:
        end_small();
        break;
      case Step::scattering:
        end_scatter();
        break;
      case Step::gathering:
        end_gather();
        break;
      case Step::done:
        break;
    }
    peers_.raise();
  }
  return Progress::finished;
}

Range SpanningPart::slice_of(int owner) const {
  const auto part = [&](int64_t count) { return Range{owner * count, (owner + 1) * count}; };
  switch (mine().collective) {
    case Collective::all_gather:
      return part(mine().input.numel());
    case Collective::reduce_scatter:
      return part(mine().output.numel());
    case Collective::broadcast:
      // A small one takes one step: the root owns all of it.
      if (mine().output.bytes() <= HostRankPart::kSmall) {
        return owner == mine().root ? Range{0, mine().output.numel()} : Range{};
      }
      break;
    default:
      break;
  }
  return all_reduce_slice(mine().output, static_cast<size_t>(layout().ranks()),
                          static_cast<size_t>(owner));
}

// Calls that differ have different tags, so that a rank never takes one's data for another's. It
// then waits, which the watchdog reports. A step's messages between two ranks start in the order
// of calls on both, so numbers may repeat.
int SpanningPart::tag(int step) const {
  constexpr uint64_t kNumbers = 64;
  const uint64_t dtype = static_cast<uint64_t>(mine().input.dtype());
  const uint64_t kind = static_cast<uint64_t>(mine().collective);
  const uint64_t op = static_cast<uint64_t>(mine().op);
  const uint64_t key =
      (((number_ % kNumbers * 2 + static_cast<uint64_t>(step)) * 8 + dtype) * 8 + kind) * 2 + op;
  static_assert(kNumbers * 2 * 8 * 8 * 2 <= HostLink::kCallTags);
  return static_cast<int>(key) + 1;
}

DType SpanningPart::dtype_of_sum(Range ranks) const {
  const DType dtype = mine().input.dtype();
  return ranks.size() == 1 ? dtype : accumulator_of(dtype);
}

std::byte* SpanningPart::scratch(int64_t elements, DType dtype) {
  scratch_.push_back(group_.spare.take(static_cast<size_t>(elements) * size_of(dtype)));
  return static_cast<std::byte*>(scratch_.back().data());
}

void SpanningPart::for_each_other_host(const std::function<void(int host)>& body) const {
  // Each rank starts with the next host, so that not all send to the same one.
  for (int i = 1; i < layout().hosts(); ++i) body((my_host() + i) % layout().hosts());
}

void SpanningPart::for_each_carried(const std::function<void(int owner, Range slice)>& body) const {
  for_each_other_host([&](int host) {
    for (const int owner : layout().ranks_of(host)) {
      if (layout().carrier(owner, my_host()) != rank()) continue;
      const Range slice = slice_of(owner);
      if (!slice.empty()) body(owner, slice);
    }
  });
}

// Sends the sums of this host to the owners of slices, and receives those of other hosts for the
// own slice.
void SpanningPart::start_reduce() {
  step_ = Step::reducing;
  if (const Range own = slice_of(rank()); !own.empty()) {
    for_each_other_host([&](int host) {
      for (const Range ranks : layout().subtrees(host)) {
        const DType dtype = dtype_of_sum(ranks);
        std::byte* data = scratch(own.size(), dtype);
        received_.push_back({ranks, ReduceSource::kNoMember, data, dtype});
        transfers_->receive(layout().carrier(rank(), host), tag(0), data,
                            static_cast<size_t>(own.size()) * size_of(dtype));
      }
    });
  }
  for_each_carried([&](int owner, Range slice) {
    for (const Range ranks : layout().subtrees(my_host())) {
      const DType dtype = dtype_of_sum(ranks);
      const std::byte* data = address_of(mine().input, slice.begin);
      if (ranks != Range{rank(), rank() + 1}) {
        std::byte* sums = scratch(slice.size(), dtype);
        peers_.reduce(inputs_of(peers_, ranks), slice, dtype, sums, /*for_all=*/false);
        data = sums;
      }
      transfers_->send(owner, tag(0), data, static_cast<size_t>(slice.size()) * size_of(dtype));
    }
  });
}

void SpanningPart::end_reduce() {
  const Range own = slice_of(rank());
  const bool for_all = mine().collective == Collective::all_reduce;
  if (!own.empty()) {
    std::vector<ReduceSource> sources = inputs_of(peers_, {0, layout().ranks()});
    sources.insert(sources.end(), received_.begin(), received_.end());
    std::ranges::sort(sources, {}, [](const ReduceSource& source) { return source.ranks.begin; });
    peers_.reduce(sources, own, mine().output.dtype(),
                  address_of(mine().output, for_all ? own.begin : 0), for_all);
  }
  if (for_all) {
    start_gather();
  } else {
    step_ = Step::done;
  }
}

// All hosts exchange their sums.
void SpanningPart::start_small() {
  step_ = Step::summing_small;
  if (peers_.me() != 0) return;
  const int64_t count = small_.empty() ? 0 : mine().input.numel();
  for (const Range ranks : layout().subtrees(my_host())) {
    const DType dtype = dtype_of_sum(ranks);
    std::byte* sums = scratch(count, dtype);
    if (count > 0) {
      std::vector<ReduceTerm> terms;
      for (size_t member = 0; member < peers_.size(); ++member) {
        const int one = peers_.rank_of(member);
        if (!ranks.contains(one)) continue;
        terms.push_back({small_[member], {one, one + 1}, mine().input.dtype()});
      }
      void* output = sums;
      reduce_terms(mine().input.dtype(), mine().op, terms, dtype, {&output, 1}, count);
    }
    received_.push_back({ranks, ReduceSource::kNoMember, sums, dtype});
    for_each_other_host([&](int host) {
      transfers_->send(layout().ranks_of(host)[0], tag(0), sums,
                       static_cast<size_t>(count) * size_of(dtype));
    });
  }
  for_each_other_host([&](int host) {
    for (const Range ranks : layout().subtrees(host)) {
      const DType dtype = dtype_of_sum(ranks);
      std::byte* data = scratch(count, dtype);
      received_.push_back({ranks, ReduceSource::kNoMember, data, dtype});
      transfers_->receive(layout().ranks_of(host)[0], tag(0), data,
                          static_cast<size_t>(count) * size_of(dtype));
    }
  });
}

void SpanningPart::end_small() {
  step_ = Step::done;
  if (peers_.me() != 0 || small_.empty()) return;
  std::ranges::sort(received_, {}, [](const ReduceSource& source) { return source.ranks.begin; });
  std::vector<ReduceTerm> terms;
  for (const ReduceSource& sums : received_) terms.push_back({sums.data, sums.ranks, sums.dtype});
  void* output = mine().output.raw();
  const int64_t count = mine().output.numel();
  reduce_terms(mine().input.dtype(), mine().op, terms, mine().output.dtype(), {&output, 1}, count);
  peers_.distribute({0, count});
}

// The root sends each rank of another host its slice.
void SpanningPart::start_scatter() {
  step_ = Step::scattering;
  const auto bytes = [&](Range slice) {
    return static_cast<size_t>(slice.size()) * size_of(mine().output.dtype());
  };
  if (rank() == mine().root) {
    for_each_other_host([&](int host) {
      for (const int owner : layout().ranks_of(host)) {
        const Range slice = slice_of(owner);
        if (slice.empty()) continue;
        transfers_->send(owner, tag(0), address_of(mine().output, slice.begin), bytes(slice));
      }
    });
  } else if (my_host() == root_host()) {
    const auto root = static_cast<size_t>(layout().index_on_host(mine().root));
    peers_.read(root, address_of(peers_.call(root).input, 0), address_of(mine().output, 0),
                static_cast<int64_t>(mine().output.bytes()));
  } else if (const Range own = slice_of(rank()); !own.empty()) {
    transfers_->receive(mine().root, tag(0), address_of(mine().output, own.begin), bytes(own));
  }
}

void SpanningPart::end_scatter() {
  if (my_host() != root_host()) peers_.distribute(slice_of(rank()));
  start_gather();
}

// Sends the own slice to the other hosts, and receives those that this rank carries. A broadcast's
// root and its host have all of them.
void SpanningPart::start_gather() {
  step_ = Step::gathering;
  const bool is_broadcast = mine().collective == Collective::broadcast;
  const size_t element = size_of(mine().output.dtype());
  if (!is_broadcast || my_host() != root_host()) {
    for_each_carried([&](int owner, Range slice) {
      transfers_->receive(owner, tag(1), address_of(mine().output, slice.begin),
                          static_cast<size_t>(slice.size()) * element);
    });
  }
  const Range own = slice_of(rank());
  if (own.empty()) return;
  const std::byte* data = mine().collective == Collective::all_gather
                              ? address_of(mine().input, 0)
                              : address_of(mine().output, own.begin);
  for_each_other_host([&](int host) {
    if (is_broadcast && host == root_host()) return;
    transfers_->send(layout().carrier(rank(), host), tag(1), data,
                     static_cast<size_t>(own.size()) * element);
  });
}

void SpanningPart::end_gather() {
  step_ = Step::done;
  if (mine().collective == Collective::broadcast && my_host() == root_host()) return;
  for_each_carried([&](int /*owner*/, Range slice) { peers_.distribute(slice); });
}

}  // namespace tessera
