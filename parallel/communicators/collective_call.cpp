#include "parallel/communicators/collective_call.h"

#include <cstddef>
#include <vector>

#include "core/range.h"
#include "parallel/communicators/peer_calls.h"

namespace tessera {
namespace {

/// One part of a collective of ranks on one host.
class Part {
 public:
  Part(std::span<const CollectiveCall> calls, std::span<const pid_t> processes, int part)
      : peers_(calls, processes, {}, static_cast<size_t>(part)) {}

  void run() {
    switch (mine().collective) {
      case Collective::all_reduce: {
        const Range slice = all_reduce_slice(mine().output, peers_.size(), peers_.me());
        reduce(slice, address_of(mine().output, slice.begin), /*for_all=*/true);
        break;
      }
      case Collective::all_gather:
        peers_.gather_inputs();
        break;
      case Collective::reduce_scatter: {
        const int64_t count = mine().output.numel();
        const auto part = static_cast<int64_t>(peers_.me());
        reduce({part * count, (part + 1) * count}, address_of(mine().output, 0),
               /*for_all=*/false);
        break;
      }
      case Collective::broadcast: {
        const auto root = static_cast<size_t>(mine().root);
        if (peers_.me() == root) break;
        peers_.read(root, address_of(peers_.call(root).input, 0), address_of(mine().output, 0),
                    static_cast<int64_t>(mine().input.bytes()));
        break;
      }
      case Collective::exchange:  // of two ranks, of which the first sends
        if (peers_.me() == 1) {
          peers_.read(0, address_of(peers_.call(0).input, 0), address_of(mine().output, 0),
                      static_cast<int64_t>(mine().output.bytes()));
        }
        break;
      case Collective::barrier:
      case Collective::split:
        break;
    }
    peers_.raise();
  }

 private:
  const CollectiveCall& mine() const { return peers_.mine(); }

  void reduce(Range range, std::byte* output, bool for_all) {
    std::vector<ReduceSource> sources;
    for (size_t member = 0; member < peers_.size(); ++member) {
      sources.push_back(peers_.input_of(member));
    }
    peers_.reduce(sources, range, mine().output.dtype(), output, for_all);
  }

  PeerCalls peers_;
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
    case Collective::exchange:
      return fmt::format("exchange from rank {} to rank {} of {}", call.root, call.key,
                         brief(call.input));
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

bool match(const Tensor& sent, const Tensor& expected) {
  return sent.dtype() == expected.dtype() && sent.numel() == expected.numel();
}

std::string mismatch(int sender, const Tensor& sent, int receiver, const Tensor& expected) {
  return fmt::format(
      "exchange: rank {} sends {} to rank {}, which expects {}: both must pass one dtype and "
      "number of elements",
      sender, brief(sent), receiver, brief(expected));
}

void run_part(std::span<const CollectiveCall> calls, std::span<const pid_t> processes, int part) {
  Part(calls, processes, part).run();
}

}  // namespace tessera
