#include <fmt/format.h>

#include <cmath>
#include <string>

#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tools/plan/run_plan.h"
#include "launch/train/start/start_summary.h"

namespace tessera {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kConvention =
    "a rank sends, by rings: of an all_reduce 2(n-1)/n of its bytes, of an all_gather or "
    "reduce_scatter (n-1)/n";

std::string human_sent(double bytes) {
  return human_bytes(static_cast<size_t>(std::llround(bytes)));
}

std::string parameters_text(const RunPlan& plan) {
  Rows rows = {{"parameters", "of the model", "of a rank"}};
  for (const ParameterGroup& group : plan.parameters) {
    if (group.global == 0) continue;
    rows.push_back({std::string(group.name), grouped(group.global), grouped(group.local)});
  }
  return table(rows, {1, 2});
}

std::string flops_text(const RunPlan& plan) {
  std::string text =
      fmt::format("FLOPs      {}FLOP a step, {}FLOP a rank\n", human_amount(plan.flops),
                  human_amount(plan.flops / plan.grid.world_size()));
  if (plan.recompute_flops > 0.0) {
    text += fmt::format("           and {}FLOP of recomputation a step\n",
                        human_amount(plan.recompute_flops));
  }
  if (plan.muon_flops() > 0.0) {
    text += fmt::format("           and {}FLOP of Muon on the first rank, which has most\n",
                        human_amount(plan.muon_flops()));
  }
  return text;
}

std::string traffic_text(const GroupTraffic& traffic) {
  std::string text =
      fmt::format("exchange   a rank sends {} a step\n", human_sent(traffic.bytes_sent()));
  Rows rows = {{"ranks", "for", "by", "calls", "of bytes", "a rank sends"}};
  for (const auto& [group, tally] : traffic.groups()) {
    for (const auto& [what, sum] : tally.sums()) {
      rows.push_back({fmt::format("{} {}", tally.ranks(), group),
                      std::string(to_string(what.first)), std::string(to_string(what.second)),
                      grouped(sum.calls), human_bytes(static_cast<size_t>(sum.bytes)),
                      human_sent(tessera::bytes_sent(what.second, tally.ranks(), sum.bytes))});
    }
  }
  if (rows.size() == 1) return text;
  return text + table(rows, {3, 4, 5}) + fmt::format("  {}\n", kConvention);
}

Json json_of(const GroupTraffic& traffic) {
  Json exchanges = Json::array();
  for (const auto& [group, tally] : traffic.groups()) {
    for (const auto& [what, sum] : tally.sums()) {
      exchanges.push_back(
          {{"group", group},
           {"ranks", tally.ranks()},
           {"for", to_string(what.first)},
           {"collective", to_string(what.second)},
           {"calls", sum.calls},
           {"bytes", sum.bytes},
           {"bytes_sent", tessera::bytes_sent(what.second, tally.ranks(), sum.bytes)}});
    }
  }
  return {
      {"convention", kConvention}, {"bytes_sent", traffic.bytes_sent()}, {"exchanges", exchanges}};
}

}  // namespace

std::string to_string(const RunPlan& plan) {
  std::string text = fmt::format("a plan of {}; nothing was run\n", plan.config.run.dir);
  text += fmt::format("ranks      {} = {}\n", plan.grid.world_size(), to_string(plan.grid));
  text += size_summary(plan.config, plan.grid, plan.memory);
  text += parameters_text(plan);
  return text + flops_text(plan) + traffic_text(plan.traffic);
}

Json to_json(const std::vector<BrokenRule>& broken) {
  Json rules = Json::array();
  for (const BrokenRule& rule : broken) {
    Json entry = {{"message", rule.message}};
    if (!rule.key.empty()) {
      entry["key"] = rule.key;
      entry["value"] = rule.value;
    }
    rules.push_back(entry);
  }
  return {{"broken_rules", rules}};
}

Json to_json(const RunPlan& plan) {
  Json groups = Json::array();
  for (const ParameterGroup& group : plan.parameters) {
    groups.push_back({{"name", group.name}, {"global", group.global}, {"rank", group.local}});
  }
  Json lines = Json::array();
  for (const MemoryPlan::Line& line : plan.memory.lines) {
    lines.push_back(
        {{"what", line.what}, {"bytes", line.bytes}, {"of_host", !plan.memory.counts(line)}});
  }
  return {{"run", plan.config.run.dir},
          {"ranks", plan.grid.world_size()},
          {"tensor", plan.grid.tensor()},
          {"context", plan.grid.size(Axis::context)},
          {"data", plan.grid.data()},
          {"parameters",
           {{"global", plan.memory.global_parameters},
            {"rank", plan.memory.local_parameters},
            {"groups", groups}}},
          {"memory",
           {{"bytes", plan.memory.total()},
            {"host_bytes", plan.memory.total_in_host()},
            {"lines", lines}}},
          {"step",
           {{"tokens", plan.counts.tokens},
            {"flops", plan.flops},
            {"flops_of_rank", plan.flops / plan.grid.world_size()},
            {"recompute_flops", plan.recompute_flops},
            {"muon_flops_of_rank", plan.muon_flops()}}},
          {"communication", json_of(plan.traffic)}};
}

}  // namespace tessera
