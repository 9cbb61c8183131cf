#include "launch/devices/device_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "core/error.h"

namespace tessera {
namespace {

std::string count(int n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

/// Name, and memory in GiB to one decimal.
std::string kind_of(const RankGpu& gpu) {
  return fmt::format("{}, {:.1f} GiB", gpu.name, static_cast<double>(gpu.bytes) / (1u << 30));
}

bool all_alike(std::span<const RankGpu> gpus) {
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](const RankGpu& gpu) { return kind_of(gpu) == kind_of(gpus[0]); });
}

std::string line_a_rank(std::span<const RankGpu> gpus) {
  std::string lines;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const RankGpu& gpu = gpus[rank];
    lines += fmt::format("\n  rank {} on {}: GPU {}, {}", rank, gpu.host, gpu.index, kind_of(gpu));
  }
  return lines;
}

/// One line for each run of consecutive ranks on one host.
std::string line_a_host(std::span<const RankGpu> gpus) {
  std::string lines;
  for (size_t first = 0, end = 0; first < gpus.size(); first = end) {
    std::vector<int> indices;
    for (end = first; end < gpus.size() && gpus[end].host == gpus[first].host; ++end) {
      indices.push_back(gpus[end].index);
    }
    const std::string ranks = end - first == 1 ? fmt::format("rank {}", first)
                                               : fmt::format("ranks {} to {}", first, end - 1);
    lines += fmt::format("\n  {} on {}: GPU {}", ranks, gpus[first].host, fmt::join(indices, ", "));
  }
  return lines;
}

}  // namespace

std::string device_summary(const DevicePlan& plan, int ranks, std::span<const RankGpu> gpus,
                           const std::string& transport) {
  if (!plan.on_gpus) {
    return fmt::format("{} on {}; {}", count(ranks, "rank"), ranks == 1 ? "the CPU" : "CPUs",
                       transport);
  }
  std::string text = fmt::format("{} on {}", count(ranks, "rank"), count(plan.gpus, "GPU"));
  if (plan.hosts > 1) text += fmt::format(" of {} hosts", plan.hosts);
  if (!all_alike(gpus)) return fmt::format("{}; {}{}", text, transport, line_a_rank(gpus));
  if (ranks == 1) {
    return fmt::format("{}: GPU {}, {}; {}", text, gpus[0].index, kind_of(gpus[0]), transport);
  }
  return fmt::format("{}: {}{}; {}{}", text, kind_of(gpus[0]), plan.gpus > 1 ? " each" : "",
                     transport, line_a_host(gpus));
}

// bytes \n index \n multiprocessors \n host \n name
std::string to_string(const RankGpu& gpu) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", gpu.bytes, gpu.index, gpu.multiprocessors, gpu.host,
                     gpu.name);
}

RankGpu parse_rank_gpu(const std::string& text) {
  std::istringstream lines(text);
  RankGpu gpu;
  require(static_cast<bool>(lines >> gpu.bytes >> gpu.index >> gpu.multiprocessors),
          "a rank's GPU cannot be parsed: \"{}\"", text);
  lines.ignore(1);
  std::getline(lines, gpu.host);
  std::getline(lines, gpu.name);
  return gpu;
}

}  // namespace tessera
