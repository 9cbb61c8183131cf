#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/support/text/human_text.h"
#include "launch/tools/evaluate/eval_run.h"

namespace tessera {

namespace {

std::string checkpoint_text(const EvalReport& report) {
  return report.checkpoint.string() + (report.ema ? " (averaged weights)" : "") +
         (report.precision == DType::bf16 ? " in bf16" : "");
}

std::string choices_to_string(const EvalReport& report) {
  int64_t questions = 0, choices = 0;
  for (const ChoiceScores& scores : report.found.choices) {
    questions += scores.questions;
    choices += scores.choices;
  }
  std::string text = fmt::format("{}: {} questions with {} choices, {:.0f} choices/s",
                                 checkpoint_text(report), questions, choices,
                                 static_cast<double>(choices) / std::max(report.seconds, 1e-9));
  for (const ChoiceScores& scores : report.found.choices) text += "\n" + describe(scores);
  return text;
}

std::string scored_to_string(const EvalReport& report) {
  return fmt::format("{}: {} texts with {} predicted tokens, {:.0f} tokens/s",
                     checkpoint_text(report), report.scored->lines, report.scored->tokens,
                     static_cast<double>(report.scored->tokens) / std::max(report.seconds, 1e-9));
}

Json choices_to_json(const std::vector<ChoiceScores>& choices) {
  Json files = Json::array();
  for (const ChoiceScores& scores : choices) {
    files.push_back({{"name", scores.name},
                     {"questions", scores.questions},
                     {"choices", scores.choices},
                     {"acc", scores.acc.value},
                     {"acc_stderr", scores.acc.error},
                     {"acc_norm", scores.acc_norm.value},
                     {"acc_norm_stderr", scores.acc_norm.error}});
  }
  return files;
}

Json datasets_to_json(const Evaluation& found) {
  Json datasets = Json::array();
  for (const DatasetLosses& each : found.datasets) {
    Json& json = datasets.emplace_back();
    json = {{"name", each.name},
            {"loss", each.losses.total()},
            {"token_targets", each.token_targets},
            {"document_targets", each.document_targets}};
    if (each.token_targets > 0) json["token_loss"] = each.losses.token;
    if (each.document_targets > 0) json["document_loss"] = each.losses.document;
    if (each.bits_per_byte) json["bits_per_byte"] = *each.bits_per_byte;
  }
  return datasets;
}

}  // namespace

std::string to_string(const EvalReport& report) {
  const Evaluation& found = report.found;
  const TargetCounts& counts = found.counts;
  std::string text;
  for (const std::string& note : report.notes) text += note + "\n";
  if (!found.choices.empty()) return text + choices_to_string(report);
  if (report.scored) return text + scored_to_string(report);
  text += fmt::format("{}: {} samples of {} tokens", checkpoint_text(report), report.samples,
                      counts.tokens);
  if (counts.token_targets > 0) {
    text += fmt::format(", {} {}", counts.token_targets,
                        report.token_labels      ? "labels"
                        : report.predicts_masked ? "masked"
                                                 : "predicted");
  }
  if (counts.document_targets > 0 && !report.compares_texts) {
    text += fmt::format(", {} labels", counts.document_targets);
  }
  text += fmt::format(", {:.0f} tokens/s\n{}",
                      static_cast<double>(counts.tokens) / std::max(report.seconds, 1e-9),
                      describe(found));
  if (counts.token_targets > 0 && !report.token_labels) {
    text += fmt::format("  perplexity {}", measured(std::exp(found.losses.token), 2));
  }
  if (const std::string datasets = describe_datasets(found); !datasets.empty()) {
    text += "\n" + datasets;
  }
  if (const std::string classes = class_table(found, report.label_names); !classes.empty()) {
    text += "\n" + classes;
  }
  return text;
}

Json to_json(const EvalReport& report) {
  const Evaluation& found = report.found;
  Json json = {{"checkpoint", report.checkpoint.string()},
               {"step", report.step},
               {"ema", report.ema},
               {"precision", to_string(report.precision)},
               {"seconds", report.seconds}};
  if (!report.notes.empty()) json["notes"] = report.notes;
  if (!found.choices.empty()) {
    json["multiple_choice"] = choices_to_json(found.choices);
    return json;
  }
  if (report.scored) {
    json.update({{"texts", report.scored->lines}, {"token_targets", report.scored->tokens}});
    return json;
  }
  json.update({{"samples", report.samples},
               {"tokens", found.counts.tokens},
               {"token_targets", found.counts.token_targets},
               {"document_targets", found.counts.document_targets}});
  json.update(numbers_of(found));
  if (found.counts.token_targets > 0 && !report.token_labels) {
    json["perplexity"] = std::exp(found.losses.token);
  }
  if (!found.datasets.empty()) json["datasets"] = datasets_to_json(found);
  if (!found.f1.empty()) {
    if (!report.label_names.empty()) json["labels"] = report.label_names;
    json["precision"] = found.precision;
    json["recall"] = found.recall;
  }
  if (!found.confusion.empty()) {
    json["confusion"] = Json::array();
    const auto classes = std::ssize(found.f1);
    for (auto row = found.confusion.begin(); row != found.confusion.end(); row += classes) {
      json["confusion"].push_back(std::vector<int64_t>(row, row + classes));
    }
  }
  return json;
}

}  // namespace tessera
