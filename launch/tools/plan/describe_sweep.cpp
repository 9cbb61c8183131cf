#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tools/plan/layout_sweep.h"

namespace tessera {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string seconds_text(double seconds) { return fmt::format("{:.3f}", seconds); }

std::string shard_text(const Layout& layout) {
  if (layout.zero == 0) return "-";
  return layout.shard == 0 ? "all" : std::to_string(layout.shard);
}

std::string plural(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

double tokens_per_second(const LayoutSweep& sweep, const SweptLayout& swept) {
  return static_cast<double>(sweep.step_tokens) / swept.time.total();
}

std::string table_of(const LayoutSweep& sweep, size_t most) {
  Rows rows = {{"tensor", "data", "micro", "recompute", "zero", "shard", "sequence", "memory",
                "predicted s", "tokens/s", "MFU", "whole run", "compute s", "passes s",
                "recompute s", "tensor s", "data s"}};
  for (size_t i = 0; i < std::min(most, sweep.fitting.size()); ++i) {
    const SweptLayout& swept = sweep.fitting[i];
    rows.push_back({std::to_string(swept.layout.tensor), std::to_string(swept.data),
                    std::to_string(swept.layout.micro),
                    std::string(to_string(swept.layout.recompute)),
                    std::to_string(swept.layout.zero), shard_text(swept.layout),
                    swept.layout.sequence ? "true" : "false", human_bytes(swept.memory),
                    seconds_text(swept.time.total()), human_amount(tokens_per_second(sweep, swept)),
                    fmt::format("{:.1f}%", 100.0 * swept.mfu),
                    human_duration(swept.time.total() * static_cast<double>(sweep.steps)),
                    seconds_text(swept.time.compute), seconds_text(swept.time.passes),
                    seconds_text(swept.time.recompute), seconds_text(swept.time.tensor),
                    seconds_text(swept.time.data)});
  }
  std::string text = table(rows, {0, 1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  if (sweep.fitting.size() > most) {
    text += fmt::format("  and {} more\n", sweep.fitting.size() - most);
  }
  return text;
}

/// "the smallest needs 93.0 GiB beside the 2.0 GiB that stay free: tensor 8, micro 1, recompute
/// block"
std::string smallest_text(const LayoutSweep& sweep) {
  const std::string beside = sweep.left_free == 0 ? ""
                                                  : fmt::format(" beside the {} that stay free",
                                                                human_bytes(sweep.left_free));
  return fmt::format("the smallest needs {}{}: {}", human_bytes(sweep.smallest_memory), beside,
                     to_string(*sweep.smallest));
}

}  // namespace

std::string to_string(const LayoutSweep& sweep, size_t most) {
  std::string text =
      fmt::format("layouts of {} in {} of memory a rank", plural(sweep.options.ranks, "rank"),
                  human_bytes(sweep.options.memory));
  if (sweep.left_free > 0) {
    text +=
        fmt::format(", of which {} must stay free for CUDA itself", human_bytes(sweep.left_free));
  }
  text += "; nothing was run\n";
  if (!sweep.fitting.empty()) text += "assumed    " + sweep.assumed;
  if (sweep.fitting.empty()) {
    text +=
        sweep.smallest ? fmt::format("none fits: {}\n", smallest_text(sweep)) : "none can run\n";
  } else {
    text += table_of(sweep, most);
    text += fmt::format("  predictions for full batches; the whole run has {} steps, {}tokens\n",
                        grouped(sweep.steps),
                        human_amount(static_cast<double>(sweep.steps * sweep.step_tokens)));
    if (sweep.too_large > 0) {
      text +=
          fmt::format("{} not fit; {}\n",
                      plural(sweep.too_large, "layout") + (sweep.too_large == 1 ? " does" : " do"),
                      smallest_text(sweep));
    }
  }
  if (sweep.broken > 0) {
    text += fmt::format("{} of tensor × data ranks cannot be used, the first because {}\n",
                        plural(sweep.broken, "grid"), sweep.first_broken);
  }
  return text;
}

Json to_json(const LayoutSweep& sweep) {
  Json layouts = Json::array();
  for (const SweptLayout& swept : sweep.fitting) {
    layouts.push_back({{"tensor", swept.layout.tensor},
                       {"data", swept.data},
                       {"micro", swept.layout.micro},
                       {"recompute", to_string(swept.layout.recompute)},
                       {"zero", swept.layout.zero},
                       {"shard", swept.layout.shard},
                       {"sequence", swept.layout.sequence},
                       {"memory_bytes", swept.memory},
                       {"predicted_seconds", swept.time.total()},
                       {"predicted_tokens_per_second", tokens_per_second(sweep, swept)},
                       {"mfu", swept.mfu},
                       {"run_seconds", swept.time.total() * static_cast<double>(sweep.steps)},
                       {"compute_seconds", swept.time.compute},
                       {"passes_seconds", swept.time.passes},
                       {"recompute_seconds", swept.time.recompute},
                       {"tensor_seconds", swept.time.tensor},
                       {"data_seconds", swept.time.data}});
  }
  Json json = {{"ranks", sweep.options.ranks},
               {"memory_bytes", sweep.options.memory},
               {"left_free_bytes", sweep.left_free},
               {"assumed", sweep.assumed_json},
               {"steps", sweep.steps},
               {"layouts", layouts},
               {"too_large", sweep.too_large},
               {"broken_grids", sweep.broken}};
  if (sweep.smallest) {
    json["smallest_too_large"] = {{"tensor", sweep.smallest->tensor},
                                  {"micro", sweep.smallest->micro},
                                  {"recompute", to_string(sweep.smallest->recompute)},
                                  {"zero", sweep.smallest->zero},
                                  {"shard", sweep.smallest->shard},
                                  {"sequence", sweep.smallest->sequence},
                                  {"memory_bytes", sweep.smallest_memory}};
  }
  if (sweep.broken > 0) json["first_broken"] = sweep.first_broken;
  return json;
}

std::string stages_text(const LayoutSweep& stages) {
  if (stages.fitting.empty()) {
    return fmt::format("stages     with no stage of parallel.zero does it fit: {}\n",
                       smallest_text(stages));
  }
  Rows rows = {{"zero", "shard", "memory", "predicted s"}};
  for (const SweptLayout& swept : stages.fitting) {
    rows.push_back({std::to_string(swept.layout.zero), shard_text(swept.layout),
                    human_bytes(swept.memory), seconds_text(swept.time.total())});
  }
  return "stages     of parallel.zero that fit, with parallel.shard, fastest first\n" +
         table(rows, {0, 1, 2, 3});
}

Json stages_json(const LayoutSweep& stages) {
  Json list = Json::array();
  for (const SweptLayout& swept : stages.fitting) {
    list.push_back({{"zero", swept.layout.zero},
                    {"shard", swept.layout.shard},
                    {"memory_bytes", swept.memory},
                    {"predicted_seconds", swept.time.total()}});
  }
  return {{"fitting", list}, {"assumed", stages.assumed_json}};
}

}  // namespace tessera
