#include "launch/train/memory/host_memory_check.h"

#include <fmt/format.h>

#include <limits>

#include "launch/support/text/human_text.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

bool is_of_host(const MemoryPlan& plan, const MemoryPlan::Line& line) {
  return plan.device.is_cpu() || line.in_host;
}

size_t bytes_in_host(const MemoryPlan& plan) {
  return plan.device.is_cpu() ? plan.total() : plan.total_in_host();
}

size_t copy_bytes(const MemoryPlan& plan) {
  for (const MemoryPlan::Line& line : plan.lines) {
    if (line.what == kCheckpointCopyLine) return line.bytes;
  }
  return 0;
}

std::string lines_in_host(const MemoryPlan& plan) {
  std::string list;
  for (const MemoryPlan::Line& line : plan.lines) {
    if (line.bytes == 0 || !is_of_host(plan, line)) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", line.what, human_bytes(line.bytes));
  }
  return list;
}

}  // namespace

std::optional<std::string> host_memory_shortage(const HostNeed& need, const MemoryPlan& plan) {
  if (need.bytes <= need.available) return std::nullopt;
  std::string text = fmt::format(
      "{} on a host need{} {} of its memory, but {} are available (a rank needs {})",
      need.ranks == 1 ? "1 rank" : fmt::format("{} ranks", need.ranks), need.ranks == 1 ? "s" : "",
      human_bytes(need.bytes), human_bytes(need.available), lines_in_host(plan));
  if (need.bytes - need.copies <= need.available) {
    return text +
           "; it would fit with checkpoint.background=false, which waits for the disk instead of "
           "copying";
  }
  return text +
         "; use fewer ranks per host, a smaller batch.micro, train.recompute=block or "
         "run.precision=bf16, or stop other processes that use the host's memory";
}

std::optional<std::string> find_host_memory_shortage(const MemoryPlan& plan,
                                                     std::optional<size_t> available,
                                                     Communicator& world) {
  std::string host;
  all_or_none(world, [&] { host = host_name(); });
  const Json mine = {{"host", host}, {"bytes", bytes_in_host(plan)}, {"copies", copy_bytes(plan)}};
  HostNeed need;
  need.available = available.value_or(std::numeric_limits<size_t>::max());
  for (const std::string& text : all_gather_strings(world, to_text(mine))) {
    const Json other = parse_json(text, "what a rank needs");
    if (other.at("host") != host) continue;
    ++need.ranks;
    need.bytes += other.at("bytes").get<size_t>();
    need.copies += other.at("copies").get<size_t>();
  }
  for (const std::string& why :
       all_gather_strings(world, host_memory_shortage(need, plan).value_or(""))) {
    if (!why.empty()) return why;
  }
  return std::nullopt;
}

}  // namespace tessera
