#include "parallel/host/host_threads.h"

#include <fmt/ranges.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/cpu_quota.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

// Rounding: a sum of shares such as 6 × 1/6 may be slightly less than 1.
int floor_of_sum(double sum) { return static_cast<int>(std::floor(sum + 1e-6)); }

std::string count(int n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::vector<RankCpus> ranks_of_host(const std::vector<RankCpus>& ranks, const std::string& host) {
  std::vector<RankCpus> result;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(result),
               [&](const RankCpus& other) { return other.host == host; });
  return result;
}

// Each CPU in `mine` counts as 1 divided by the number of ranks that may run on it.
double sum_of_shares(const std::set<int>& mine, const std::vector<RankCpus>& neighbours) {
  double sum = 0;
  for (const int cpu : mine) {
    const auto sharers = std::count_if(neighbours.begin(), neighbours.end(),
                                       [&](const RankCpus& r) { return r.bound.count(cpu) != 0; });
    sum += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(sharers, 1));
  }
  return sum;
}

int ranks_that_share(const std::set<int>& mine, const std::vector<RankCpus>& neighbours) {
  return static_cast<int>(
      std::count_if(neighbours.begin(), neighbours.end(), [&](const RankCpus& other) {
        return std::any_of(mine.begin(), mine.end(),
                           [&](int cpu) { return other.bound.count(cpu) != 0; });
      }));
}

// The CPUs that the ranks of a host would have without binding.
std::set<int> unbound_cpus(const std::vector<RankCpus>& neighbours) {
  std::set<int> all;
  for (const RankCpus& rank : neighbours) {
    all.insert(rank.bound.begin(), rank.bound.end());
    all.insert(rank.unbound.begin(), rank.unbound.end());
  }
  return all;
}

}  // namespace

HostThreads choose_host_threads(const std::vector<RankCpus>& ranks, int rank) {
  const RankCpus& me = ranks.at(static_cast<size_t>(rank));
  const auto result = [](int threads, const std::string& why) {
    return HostThreads{threads, fmt::format("{} ({})", count(threads, "thread"), why)};
  };
  if (me.user) return result(*me.user, "OMP_NUM_THREADS");

  const auto neighbours = ranks_of_host(ranks, me.host);
  const auto host_ranks = static_cast<int>(neighbours.size());
  const int by_quota = me.quota ? std::max(1, floor_of_sum(*me.quota / host_ranks))
                                : std::numeric_limits<int>::max();

  const int shares = floor_of_sum(sum_of_shares(me.bound, neighbours));
  const int by_cpus = std::max(1, shares);
  if (by_quota < by_cpus) {
    return result(by_quota, fmt::format("a limit of {:g} CPUs on this container shared by {}",
                                        *me.quota, count(host_ranks, "rank")));
  }

  const std::set<int> all = unbound_cpus(neighbours);
  const int unbound = std::min(by_quota, static_cast<int>(all.size()) / host_ranks);
  if (me.bound.size() < all.size() && unbound > by_cpus) {
    return result(
        by_cpus, fmt::format("bound to {} of {} by the launcher; mpirun --bind-to none "
                             "would give {}",
                             me.bound.size(), count(static_cast<int>(all.size()), "CPU"), unbound));
  }
  std::string why = fmt::format("{} of this host", count(static_cast<int>(me.bound.size()), "CPU"));
  const int sharers = ranks_that_share(me.bound, neighbours);
  if (sharers > 1) why += fmt::format(" shared by {}", count(sharers, "rank"));
  if (shares < 1) why += ": more ranks than CPUs";
  return result(by_cpus, why);
}

HostThreads apply_host_threads(Communicator& world) {
  std::vector<RankCpus> ranks;
  std::string mine;
  all_or_none(world, [&] { mine = to_string(find_rank_cpus()); });
  for (const std::string& text : all_gather_strings(world, mine)) {
    ranks.push_back(parse_rank_cpus(text));
  }
  HostThreads chosen = choose_host_threads(ranks, world.rank());
  omp_set_num_threads(chosen.threads);
  return chosen;
}

// --- what the system says ------------------------------------------------------------------------

namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

// Empty if the system does not report them. `process` 0 is the calling thread.
std::set<int> affinity_of(pid_t process) {
  // The kernel refuses a set smaller than its own and does not report its size.
  constexpr int kMost = 1 << 20;
  for (int cpus = 1024; cpus <= kMost; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(static_cast<size_t>(cpus)));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(process, bytes, set.get()) == 0) {
      std::set<int> result;
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) result.insert(cpu);
      }
      return result;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

std::optional<int> user_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return std::nullopt;
  // A list has one number per nesting level; Tessera uses one level.
  const std::string_view all = text;
  const std::string_view first = all.substr(0, all.find(','));
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  require(error == std::errc() && end == first.data() + first.size() && threads >= 1,
          "the environment variable OMP_NUM_THREADS is \"{}\", but must be a positive number", all);
  return threads;
}

}  // namespace

RankCpus find_rank_cpus() {
  RankCpus cpus;
  cpus.host = host_name();
  cpus.bound = affinity_of(0);
  require(!cpus.bound.empty(), "the system does not report on which CPUs this process may run: {}",
          std::generic_category().message(errno));
  cpus.unbound = affinity_of(getppid());
  cpus.quota = find_cpu_quota();
  cpus.user = user_threads();
  return cpus;
}

// host \n bound \n unbound \n quota or 0 \n user or 0
std::string to_string(const RankCpus& cpus) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", cpus.host, fmt::join(cpus.bound, " "),
                     fmt::join(cpus.unbound, " "), cpus.quota.value_or(0), cpus.user.value_or(0));
}

RankCpus parse_rank_cpus(const std::string& text) {
  std::istringstream lines(text);
  const auto next_line = [&] {
    std::string line;
    require(static_cast<bool>(std::getline(lines, line)), "a rank's CPUs end early: \"{}\"", text);
    return std::istringstream(line);
  };
  const auto read_cpus = [&](std::set<int>& cpus) {
    std::istringstream line = next_line();
    for (int cpu = 0; line >> cpu;) cpus.insert(cpu);
  };
  RankCpus cpus;
  cpus.host = next_line().str();
  read_cpus(cpus.bound);
  read_cpus(cpus.unbound);
  double quota = 0;
  int user = 0;
  next_line() >> quota;
  next_line() >> user;
  if (quota > 0) cpus.quota = quota;
  if (user > 0) cpus.user = user;
  return cpus;
}

}  // namespace tessera
