#include "launch/train/memory/gpu_memory_check.h"

#include <fmt/format.h>

#include "launch/support/text/human_text.h"

namespace tessera {
namespace {

bool fits(const MemoryPlan& plan, size_t free_bytes) {
  return plan.total() + kUnplannedBytes <= free_bytes;
}

std::string list_of_lines(const MemoryPlan& plan) {
  std::string list;
  for (const MemoryPlan::Line& line : plan.lines) {
    if (line.bytes == 0 || !plan.counts(line)) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", line.what, human_bytes(line.bytes));
  }
  return list;
}

}  // namespace

std::optional<std::string> gpu_memory_shortage(
    const MemoryPlan& plan, size_t free_bytes, int64_t micro_batch,
    const std::function<MemoryPlan(int64_t micro_batch)>& plan_for) {
  if (fits(plan, free_bytes)) return std::nullopt;
  std::string text =
      fmt::format("a rank needs {} of GPU memory ({}) and {} for CUDA itself, but {} are free",
                  human_bytes(plan.total()), list_of_lines(plan), human_bytes(kUnplannedBytes),
                  human_bytes(free_bytes));
  for (int64_t smaller = micro_batch - 1; smaller >= 1; --smaller) {
    if (micro_batch % smaller != 0 || !fits(plan_for(smaller), free_bytes)) continue;
    return text + fmt::format("; batch.micro={} would fit", smaller);
  }
  return text +
         "; no smaller batch.micro that divides it would fit: split the model over more ranks with "
         "parallel.tensor, or choose train.recompute=block, run.precision=bf16 or a smaller model";
}

}  // namespace tessera
