#include "launch/train/start/start_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "core/version.h"
#include "launch/support/text/human_text.h"
#include "models/architecture.h"
#include "models/layers/attention/self_attention.h"

namespace tessera {
namespace {

std::string memory_lines(const MemoryPlan& memory) {
  std::string text = fmt::format("memory     {} a rank", human_bytes(memory.total()));
  if (memory.total_in_host() > 0) {
    text += fmt::format(" of its GPU's, {} of the host's", human_bytes(memory.total_in_host()));
  }
  text += "\n";
  for (const MemoryPlan::Line& line : memory.lines) {
    if (line.bytes == 0) continue;
    text += fmt::format("  {:<16}{:>12}{}\n", line.what, human_bytes(line.bytes),
                        memory.counts(line) ? "" : "  (host)");
  }
  return text;
}

std::string zero_text(const RunConfig& config, const ProcessGrid& grid) {
  const int owners = grid.shards();
  if (owners == 1) return "";
  const char* kept = config.parallel.zero == 3   ? " and keeps as much of the blocks"
                     : config.parallel.zero == 2 ? " and keeps as much of the blocks' gradients"
                                                 : "";
  return fmt::format("; a data rank updates 1/{} of them{}", owners, kept);
}

/// A line if tensor ranks have different numbers of heads.
std::string heads_line(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const auto tensor = narrow<int>(config.parallel.tensor);
  const int64_t most = local_heads(model, tensor, 0).size();
  const int64_t fewest = local_heads(model, tensor, tensor - 1).size();
  if (most == fewest) return "";
  return fmt::format("heads      {} of {} on the first tensor rank, {} on the last\n", most,
                     model.num_heads, fewest);
}

/// A line with µP.
std::string mup_line(const ModelConfig& model) {
  if (!model.has_mup()) return "";
  return fmt::format("µP         {:.4g} × the width of the base model, {}\n", model.width_mult(),
                     model.mup_base_hidden_size);
}

}  // namespace

std::string size_summary(const RunConfig& config, const ProcessGrid& grid,
                         const MemoryPlan& memory) {
  const ModelConfig& model = config.model;
  const int64_t micro_steps = config.batch.global / (config.batch.micro * grid.data());
  const int context = grid.size(Axis::context);
  std::string text =
      fmt::format("model      {}, {}\n", human_model(model), to_string(config.run.precision));
  text += mup_line(model);
  text += fmt::format("parameters {} ({} on a tensor rank{})\n", grouped(memory.global_parameters),
                      grouped(memory.local_parameters), zero_text(config, grid));
  text +=
      fmt::format("batch      {} sequences, {} tokens a step; {} micro-batch{} of {} a rank{}\n",
                  config.batch.global, grouped(config.batch.global * traits_of(model).row_length),
                  micro_steps, micro_steps == 1 ? "" : "es", config.batch.micro,
                  context == 1 ? "" : fmt::format(", cut over {} context ranks", context));
  return text + heads_line(config) + memory_lines(memory);
}

std::string start_summary(const RunConfig& config, const ParallelGroups& groups,
                          const MemoryPlan& memory, const std::string& threads,
                          const std::string& devices) {
  std::string text =
      fmt::format("tessera {} ({}): {}\n", kVersion, program_variant(), config.run.dir);
  text += fmt::format("ranks      {}", to_text(groups.grid));
  if (config.parallel.sequence && groups.tp->size() > 1) {
    text += "sequence   split over the tensor ranks outside attention and MLP\n";
  }
  text += fmt::format("devices    {}\n", devices);
  text += fmt::format("threads    {}\n", threads);
  return text + size_summary(config, groups.grid, memory);
}

}  // namespace tessera
