#include "launch/tools/report/report_panels.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "launch/support/text/printable_text.h"
#include "launch/tools/report/run_results.h"

namespace tessera {
namespace {

using Unit = ReportPanel::Unit;

/// Every panel but those of other results of evaluations.
std::vector<ReportPanel> all_panels() {
  return {
      {.id = "loss",
       .title = "Loss",
       .log = true,
       .smooth = true,
       .series = {{"loss", "training"},
                  {"eval_loss", "evaluation", true},
                  {"eval_ema_loss", "evaluation of the average", true}}},
      {.id = "losses",
       .title = "Parts of the loss",
       .log = true,
       .smooth = true,
       .series = {{"token_loss", "tokens"},
                  {"document_loss", "documents"},
                  {"eval_token_loss", "evaluation, tokens", true},
                  {"eval_document_loss", "evaluation, documents", true}}},
      {.id = "accuracy",
       .title = "Accuracy",
       .note = "of evaluations",
       .unit = Unit::percent,
       .series = {{"eval_document_accuracy", "documents", true},
                  {"eval_token_accuracy", "tokens", true}}},
      {.id = "lr", .title = "Learning rate", .zero = true, .series = {{"lr", "learning rate"}}},
      {.id = "grad_norm",
       .title = "Gradient norm",
       .note = "before clipping",
       .log = true,
       .smooth = true,
       .series = {{"grad_norm", "norm"}}},
      {.id = "noise_scale",
       .title = "Gradient noise scale",
       .note = "in samples",
       .unit = Unit::amount,
       .log = true,
       .series = {{"noise_scale", "noise scale"}}},
      {.id = "tokens_per_second",
       .title = "Tokens per second",
       .note = "without padding",
       .unit = Unit::amount,
       .zero = true,
       .smooth = true,
       .series = {{"tokens_per_second", "tokens/s"}}},
      {.id = "mfu",
       .title = "MFU",
       .note = "share of the GPUs' peak",
       .unit = Unit::percent,
       .zero = true,
       .smooth = true,
       .series = {{"mfu", "MFU"}}},
      {.id = "flops",
       .title = "Model FLOP/s",
       .note = "all ranks",
       .unit = Unit::amount,
       .zero = true,
       .smooth = true,
       .series = {{"model_flops_per_second", "FLOP/s"}}},
      {.id = "data_wait",
       .title = "Waiting for data",
       .note = "since the previous line",
       .unit = Unit::seconds,
       .zero = true,
       .series = {{"data_wait_seconds", "waiting"}}},
      {.id = "save",
       .title = "Saving",
       .unit = Unit::seconds,
       .zero = true,
       .series = {{"save_seconds", "training waited", true},
                  {"save_background_seconds", "in the background", true}}},
      {.id = "slowest_rank",
       .title = "Waiting for the slowest rank",
       .note = "share of all ranks' time",
       .unit = Unit::percent,
       .zero = true,
       .smooth = true,
       .series = {{"slowest_rank_share", "share"}}},
  };
}

bool has_values(const std::vector<RunRecord>& runs, std::string_view key) {
  return std::ranges::any_of(runs, [&](const RunRecord& run) { return run.find(key) != nullptr; });
}

/// "eval_micro_f1" as "Evaluation: micro f1".
ReportPanel panel_of_result(const std::string& key) {
  std::string name = key.substr(std::string_view("eval_").size());
  std::ranges::replace(name, '_', ' ');
  ReportPanel panel;
  panel.id = key;
  panel.title = "Evaluation: " + name;
  panel.series = {{key, name, true}};
  return panel;
}

/// The panel of a file of multiple-choice questions, whose accuracy is `key`: "eval_hellaswag_acc".
ReportPanel panel_of_choices(const std::string& key) {
  constexpr size_t kBefore = std::string_view("eval_").size(), kAfter = 4;
  ReportPanel panel;
  panel.id = key;
  panel.title = "Multiple choice: " + key.substr(kBefore, key.size() - kBefore - kAfter);
  panel.unit = Unit::percent;
  panel.series = {{key, "acc", true}, {key + "_norm", "acc_norm", true}};
  return panel;
}

/// The panels of the datasets of a blend, whose keys are `prefix`NAME.
std::optional<ReportPanel> panel_of_datasets(const std::vector<RunRecord>& runs,
                                             std::string_view prefix, ReportPanel panel) {
  std::set<std::string_view> keys;
  for (const RunRecord& run : runs) {
    for (const auto& [key, series] : run.series) {
      if (key.starts_with(prefix)) keys.insert(key);
    }
  }
  if (keys.empty()) return std::nullopt;
  panel.note = "of evaluations";
  for (const std::string_view key : keys) {
    panel.series.push_back({std::string(key), printable(key.substr(prefix.size())), true});
  }
  return panel;
}

/// Whether an id may be part of an element's id and of an address.
bool is_plain(std::string_view key) {
  return std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

}  // namespace

std::vector<ReportPanel> panels_for(const std::vector<RunRecord>& runs) {
  std::vector<ReportPanel> panels = all_panels();
  // Constants of the data, which say how hard it is and are no results.
  std::set<std::string, std::less<>> known = {"eval_most_frequent_token",
                                              "eval_most_frequent_label"};
  for (const ReportPanel& panel : panels) {
    for (const ReportPanel::Series& series : panel.series) known.insert(series.key);
  }
  const auto after_accuracy =
      std::ranges::find(panels, "accuracy", &ReportPanel::id) - panels.begin() + 1;
  std::vector<ReportPanel> results;
  for (auto panel :
       {panel_of_datasets(runs, "eval_loss/",
                          {.id = "dataset_loss", .title = "Loss by dataset", .log = true}),
        panel_of_datasets(runs, "eval_bits_per_byte/",
                          {.id = "dataset_bits", .title = "Bits per byte by dataset"})}) {
    if (panel) results.push_back(*std::move(panel));
  }
  for (const RunRecord& run : runs) {
    for (const auto& [key, series] : run.series) {
      if (!key.starts_with("eval_") || !is_plain(key) || !known.insert(key).second) continue;
      if (!is_choice_accuracy(run, key)) {
        results.push_back(panel_of_result(key));
        continue;
      }
      results.push_back(panel_of_choices(key));
      for (const char* other : {"_norm", "_stderr", "_norm_stderr"}) known.insert(key + other);
    }
  }
  panels.insert(panels.begin() + after_accuracy, results.begin(), results.end());
  // The only part of a loss is the loss.
  const bool has_parts = std::ranges::any_of(runs, [](const RunRecord& run) {
    return (run.find("token_loss") != nullptr && run.find("document_loss") != nullptr) ||
           (run.find("eval_token_loss") != nullptr && run.find("eval_document_loss") != nullptr);
  });
  // MFU says the same as FLOP/s, where it is known.
  const bool mfu_suffices = std::ranges::all_of(runs, [](const RunRecord& run) {
    return run.find("mfu") != nullptr || run.find("model_flops_per_second") == nullptr;
  });
  std::erase_if(panels, [&](ReportPanel& panel) {
    std::erase_if(panel.series, [&](const auto& series) { return !has_values(runs, series.key); });
    return panel.series.empty() || (panel.id == "losses" && !has_parts) ||
           (panel.id == "flops" && mfu_suffices);
  });
  return panels;
}

Json to_json(const ReportPanel& panel) {
  constexpr std::string_view kUnits[] = {"number", "percent", "seconds", "amount"};
  Json series = Json::array();
  for (const ReportPanel::Series& each : panel.series) {
    series.push_back({{"key", each.key}, {"label", each.label}, {"dots", each.dots}});
  }
  return {{"id", panel.id},         {"title", panel.title},
          {"note", panel.note},     {"unit", kUnits[static_cast<size_t>(panel.unit)]},
          {"log", panel.log},       {"zero", panel.zero},
          {"smooth", panel.smooth}, {"series", std::move(series)}};
}

}  // namespace tessera
