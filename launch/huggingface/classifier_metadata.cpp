#include "launch/huggingface/classifier_metadata.h"

#include "core/error.h"
#include "launch/config/label_names.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr const char* kClassifierMetadata = "tessera_classifier";
constexpr const char* kProblemTypeKey = "problem_type";
constexpr const char* kPoolingKey = "classifier_pooling";
constexpr const char* kLabelNamesKey = "labels";

}  // namespace

std::map<std::string, std::string> classifier_metadata(const ModelConfig& model,
                                                       const std::vector<std::string>& labels) {
  if (!classifies(model.head)) return {};
  const Json json = {{kProblemTypeKey, problem_type_name(model.problem_type)},
                     {kPoolingKey, model.classifier_pooling == Pooling::mean ? "mean" : "cls"},
                     {kLabelNamesKey, labels}};
  return {{kClassifierMetadata, to_text(json)}};
}

std::optional<ClassifierSettings> read_classifier_metadata(
    const std::map<std::string, std::string>& metadata, const std::string& where) {
  const auto found = metadata.find(kClassifierMetadata);
  if (found == metadata.end()) return std::nullopt;
  const std::string source = fmt::format("{}: the metadata \"{}\"", where, kClassifierMetadata);
  const Json json = parse_json(found->second, source);
  const JsonObject object(json, source);
  ClassifierSettings settings;
  const std::string problem = object.text(kProblemTypeKey), pooling = object.text(kPoolingKey);
  const std::optional<ProblemType> type = problem_type_of(problem);
  require(type.has_value(), "{}: \"{}\" is {}, which is not known", source, kProblemTypeKey,
          quote(problem));
  settings.problem_type = *type;
  require(pooling == "mean" || pooling == "cls",
          "{}: \"{}\" is {}, but must be \"mean\" or \"cls\"", source, kPoolingKey, quote(pooling));
  settings.pooling = pooling == "mean" ? Pooling::mean : Pooling::cls;
  for (const Json& label : object.list(kLabelNamesKey)) {
    require(label.is_string(), "{}: \"{}\" must be a list of names, but has {}", source,
            kLabelNamesKey, json_type(label));
    settings.labels.push_back(label.get<std::string>());
  }
  if (settings.labels.empty()) return settings;
  const std::optional<std::string> problem_of_labels = label_problem(settings.labels);
  require(!problem_of_labels, "{}: \"{}\": {}", source, kLabelNamesKey,
          problem_of_labels.value_or(""));
  return settings;
}

}  // namespace tessera
