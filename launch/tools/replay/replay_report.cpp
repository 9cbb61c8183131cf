#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/support/text/human_text.h"
#include "launch/tools/replay/replay.h"

namespace tessera {
namespace {

constexpr size_t kMostDocuments = 20;

/// All digits, because bits are compared.
std::string exact(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : measured(value);
}

std::string comparison(const ReplayReport& report) {
  if (!report.logged) return "metrics.jsonl has no line of this step";
  if (report.same_bits()) return "the same bits as in metrics.jsonl";
  return fmt::format(
      "metrics.jsonl has loss {} and gradient norm {}: only the same layout, device and program "
      "have the same bits",
      exact(report.logged->loss), exact(report.logged->grad_norm));
}

/// Not finite first, then by loss.
std::vector<DocumentLoss> largest(std::vector<DocumentLoss> documents) {
  const auto key = [](const DocumentLoss& document) {
    const double loss = document.losses.total();
    return std::isfinite(loss) ? -loss : -INFINITY;
  };
  std::ranges::stable_sort(documents, {}, key);
  if (documents.size() > kMostDocuments) documents.resize(kMostDocuments);
  return documents;
}

std::string document_lines(const ReplayReport& report) {
  if (report.documents.empty()) {
    return "documents have no loss of their own: this model's loss compares all texts of a step\n";
  }
  const std::vector<DocumentLoss> shown = largest(report.documents);
  std::string text = shown.size() == report.documents.size()
                         ? fmt::format("losses of the {} documents:\n", shown.size())
                         : fmt::format("the {} largest losses of {} documents (all: --json):\n",
                                       shown.size(), report.documents.size());
  text += fmt::format("  {:>12}  {:>7}  {:>9}  document\n", "loss", "targets", "data rank");
  for (const DocumentLoss& one : shown) {
    text += fmt::format("  {:>12}  {:>7}  {:>9}  {}\n", measured(one.losses.total()),
                        one.token_targets + one.document_targets, one.data_rank, one.name);
  }
  return text;
}

std::string layer_lines(const ReplayReport& report) {
  size_t width = 5;
  for (const LayerNorms& layer : report.layers) width = std::max(width, layer.layer.size());
  std::string text = "norms:\n";
  text += fmt::format("  {:<{}}  {:>13}  {:>12}  {:>12}\n", "layer", width, "parameters", "weights",
                      "gradient");
  for (const LayerNorms& layer : report.layers) {
    text +=
        fmt::format("  {:<{}}  {:>13}  {:>12}  {:>12}\n", layer.layer, width,
                    grouped(layer.parameters), measured(layer.weights), measured(layer.gradients));
  }
  return text;
}

}  // namespace

std::string to_string(const ReplayReport& report) {
  const StepResult& result = report.result;
  std::string text =
      fmt::format("step {} of {}, on {}\n", result.step, report.run.string(), report.layout);
  text += fmt::format("{}, and {} step{} computed before it\n", report.start, report.steps,
                      report.steps == 1 ? "" : "s");
  text += fmt::format("loss {}  gradient norm {}  lr {:g}: {}\n", exact(result.loss()),
                      exact(result.grad_norm), result.lr, comparison(report));
  if (report.skipped) {
    text += fmt::format("the step changes no weight, because {}\n", *report.skipped);
  }
  if (report.diagnosis) text += report.diagnosis->text() + "\n";
  return text + document_lines(report) + layer_lines(report);
}

Json to_json(const ReplayReport& report) {
  const StepResult& result = report.result;
  Json json = {{"run", report.run.string()},    {"step", result.step},     {"start", report.start},
               {"steps_before", report.steps},  {"layout", report.layout}, {"loss", result.loss()},
               {"grad_norm", result.grad_norm}, {"lr", result.lr}};
  if (report.logged) {
    json["logged"] = {{"loss", report.logged->loss},
                      {"grad_norm", report.logged->grad_norm},
                      {"same_bits", report.same_bits()}};
  }
  if (report.skipped) json["skipped_because"] = *report.skipped;
  if (report.diagnosis) json.update(report.diagnosis->json());
  json["documents"] = Json::array();
  for (const DocumentLoss& one : report.documents) {
    json["documents"].push_back({{"name", one.name},
                                 {"sample", one.sample},
                                 {"data_rank", one.data_rank},
                                 {"loss", one.losses.total()},
                                 {"token_loss", one.losses.token},
                                 {"token_targets", one.token_targets},
                                 {"document_loss", one.losses.document},
                                 {"document_targets", one.document_targets}});
  }
  json["layers"] = Json::array();
  for (const LayerNorms& layer : report.layers) {
    json["layers"].push_back({{"layer", layer.layer},
                              {"parameters", layer.parameters},
                              {"weight_norm", layer.weights},
                              {"grad_norm", layer.gradients}});
  }
  return json;
}

}  // namespace tessera
