#include "launch/devices/device_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

std::string count(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

int ranks_of(std::span<const RankGpus> ranks, const std::string& host) {
  return static_cast<int>(std::count_if(ranks.begin(), ranks.end(),
                                        [&](const RankGpus& rank) { return rank.host == host; }));
}

/// The hosts of the ranks for which `holds` is true, in the order of their first ranks.
template <typename Condition>
std::vector<std::string> hosts_where(std::span<const RankGpus> ranks, Condition&& holds) {
  std::vector<std::string> hosts;
  for (const RankGpus& rank : ranks) {
    if (!holds(rank) || std::find(hosts.begin(), hosts.end(), rank.host) != hosts.end()) continue;
    hosts.push_back(rank.host);
  }
  return hosts;
}

std::string host_list(const std::vector<std::string>& hosts) {
  constexpr size_t kShown = 4;
  const size_t shown = std::min(hosts.size(), kShown);
  const std::string names =
      fmt::format("{}", fmt::join(hosts.begin(), hosts.begin() + static_cast<long>(shown), ", "));
  return hosts.size() > shown ? fmt::format("{} and {} more", names, hosts.size() - shown) : names;
}

DevicePlan on_cpus(std::string note, int hosts) {
  DevicePlan plan;
  plan.note = std::move(note);
  plan.hosts = hosts;
  return plan;
}

void check_build(DeviceChoice device, Backend backend, GpuBuild build) {
  require(device != DeviceChoice::cuda || build.cuda,
          "run.device is cuda, but this build of Tessera has no CUDA support: choose auto or cpu");
  require(backend != Backend::nccl || build.nccl,
          "parallel.backend is nccl, but this build of Tessera has no NCCL: choose auto or mpi");
  require(backend != Backend::nccl || device != DeviceChoice::cpu,
          "parallel.backend is nccl, but run.device is cpu: NCCL connects GPUs, so choose auto or "
          "mpi as parallel.backend, or cuda as run.device");
}

/// True if every rank has a GPU, false if none has; throws otherwise.
bool all_have_gpus(std::span<const RankGpus> ranks) {
  const auto without = [](const RankGpus& rank) { return rank.addresses.empty(); };
  const auto first = std::find_if(ranks.begin(), ranks.end(), without);
  if (first == ranks.end()) return true;
  const auto have = std::find_if_not(ranks.begin(), ranks.end(), without);
  if (have == ranks.end()) return false;
  fail(
      "rank {} on {} has {}, but rank {} on {} has none: {}. All ranks compute on the same kind of "
      "device, so start none on {}, or choose cpu as run.device",
      have - ranks.begin(), have->host, count(static_cast<int64_t>(have->addresses.size()), "GPU"),
      first - ranks.begin(), first->host, first->why_none, host_list(hosts_where(ranks, without)));
}

/// Number of ranks per GPU, by host and address.
using Users = std::map<std::pair<std::string, std::string>, int>;

std::vector<int> assign(std::span<const RankGpus> ranks, Users& users) {
  std::vector<int> gpu_of_rank;
  for (const RankGpus& rank : ranks) {
    const auto users_of = [&](const std::string& address) -> int& {
      return users[{rank.host, address}];
    };
    const auto best = std::min_element(
        rank.addresses.begin(), rank.addresses.end(),
        [&](const std::string& a, const std::string& b) { return users_of(a) < users_of(b); });
    ++users_of(*best);
    gpu_of_rank.push_back(static_cast<int>(best - rank.addresses.begin()));
  }
  std::erase_if(users, [](const auto& entry) { return entry.second == 0; });
  return gpu_of_rank;
}

/// "4 ranks share 2 GPUs on node1" for the first host whose ranks share GPUs; nullopt if none do.
std::optional<std::string> who_shares(std::span<const RankGpus> ranks, const Users& users) {
  const auto shared =
      std::find_if(users.begin(), users.end(), [](const auto& entry) { return entry.second > 1; });
  if (shared == users.end()) return std::nullopt;
  const std::string& host = shared->first.first;
  const auto gpus = std::count_if(users.begin(), users.end(),
                                  [&](const auto& entry) { return entry.first.first == host; });
  return fmt::format("{} share {} on {}", count(ranks_of(ranks, host), "rank"), count(gpus, "GPU"),
                     host);
}

void choose_backend(DevicePlan& plan, Backend backend, GpuBuild build,
                    std::span<const RankGpus> ranks, const Users& users) {
  const std::optional<std::string> sharing = who_shares(ranks, users);
  if (backend == Backend::nccl && sharing && !build.nccl_may_share) {
    fail(
        "parallel.backend is nccl, but {}, and NCCL needs a GPU for each rank: start no more ranks "
        "than there are GPUs, or set parallel.backend to mpi, which lets ranks share GPUs",
        *sharing);
  }
  plan.nccl = backend == Backend::nccl ||
              (backend == Backend::automatic && build.nccl && !sharing && ranks.size() > 1);
  if (plan.nccl && sharing) {
    plan.note = fmt::format("a test: {} over NCCL, which is slow", *sharing);
  }
  if (backend != Backend::automatic || plan.nccl || ranks.size() == 1) return;
  plan.note = sharing ? fmt::format(
                            "{}, so they exchange tensors through the host's memory; NCCL needs a "
                            "GPU for each rank",
                            *sharing)
                      : "this build has no NCCL: GPUs exchange tensors through their hosts' memory";
}

}  // namespace

DevicePlan plan_devices(DeviceChoice device, Backend backend, GpuBuild build,
                        std::span<const RankGpus> ranks) {
  require(!ranks.empty(), "plan_devices: there are no ranks");
  check_build(device, backend, build);
  const auto hosts =
      static_cast<int>(hosts_where(ranks, [](const RankGpus&) { return true; }).size());
  if (device == DeviceChoice::cpu || !build.cuda) return on_cpus("", hosts);

  if (!all_have_gpus(ranks)) {
    const std::string why = fmt::format("{}: {}", ranks[0].host, ranks[0].why_none);
    require(device != DeviceChoice::cuda,
            "run.device is cuda, but no rank has a GPU that it can use. On {}. Choose auto or cpu",
            why);
    require(backend != Backend::nccl,
            "parallel.backend is nccl, but no rank has a GPU that it can use. On {}. Choose auto "
            "or mpi",
            why);
    return on_cpus(fmt::format("no GPU is used. On {}", why), hosts);
  }
  DevicePlan plan;
  Users users;
  plan.on_gpus = true;
  plan.gpu_of_rank = assign(ranks, users);
  plan.gpus = static_cast<int>(users.size());
  plan.hosts = hosts;
  choose_backend(plan, backend, build, ranks, users);
  return plan;
}

// host \n why_none \n one address per line
std::string to_string(const RankGpus& gpus) {
  return fmt::format("{}\n{}\n{}", gpus.host, gpus.why_none, fmt::join(gpus.addresses, "\n"));
}

RankGpus parse_rank_gpus(const std::string& text) {
  std::istringstream lines(text);
  RankGpus gpus;
  require(std::getline(lines, gpus.host) && std::getline(lines, gpus.why_none),
          "a rank's GPUs end early: \"{}\"", text);
  for (std::string address; std::getline(lines, address);) gpus.addresses.push_back(address);
  return gpus;
}

}  // namespace tessera
