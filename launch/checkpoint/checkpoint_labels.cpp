#include "launch/checkpoint/checkpoint_labels.h"

#include "launch/config/label_names.h"

namespace tessera {

std::vector<std::string> checkpoint_labels(const Json& extra) {
  if (!extra.contains(kLabelsKey) || !extra[kLabelsKey].is_string()) return {};
  return label_names(extra[kLabelsKey].get<std::string>());
}

bool has_other_labels(const Json& extra, const std::optional<std::string>& labels) {
  const std::vector<std::string> saved = checkpoint_labels(extra);
  return labels && !saved.empty() && label_names(*labels) != saved;
}

}  // namespace tessera
