#include "launch/devices/device_summary.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tessera {
namespace {

std::string count(int n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

/// The kinds of GPUs by name and memory to a tenth of a GiB, in the order of their first ranks,
/// with the number of ranks on each.
std::vector<std::pair<std::string, int>> kinds_of(std::span<const RankGpu> gpus) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const RankGpu& gpu : gpus) {
    const double gibibytes = static_cast<double>(gpu.bytes) / (1u << 30);
    const std::string text = fmt::format("{}, {:.1f} GiB", gpu.name, gibibytes);
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto& kind) { return kind.first == text; });
    if (found == kinds.end()) {
      kinds.emplace_back(text, 1);
    } else {
      ++found->second;
    }
  }
  return kinds;
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
  const auto kinds = kinds_of(gpus);
  const char* separator = ": ";
  for (const auto& [kind, users] : kinds) {
    text += separator;
    if (kinds.size() > 1) text += fmt::format("{} on ", count(users, "rank"));
    text += kind;
    if (plan.gpus > 1) text += " each";
    separator = ", ";
  }
  return text + "; " + transport;
}

std::string to_string(const RankGpu& gpu) { return fmt::format("{}\n{}", gpu.bytes, gpu.name); }

RankGpu parse_rank_gpu(const std::string& text) {
  std::istringstream lines(text);
  RankGpu gpu;
  require(static_cast<bool>(lines >> gpu.bytes), "a rank's GPU is not told: \"{}\"", text);
  lines.ignore(1);
  std::getline(lines, gpu.name);
  return gpu;
}

}  // namespace tessera
