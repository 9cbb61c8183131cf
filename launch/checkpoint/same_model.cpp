#include "launch/checkpoint/same_model.h"

#include <set>
#include <vector>

#include "core/error.h"

namespace tessera {

namespace {

std::string value_text(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? "missing" : to_text(*found);
}

void add_differences(const Json& saved, const Json& run, const std::string& path,
                     std::vector<std::string>& differences) {
  std::set<std::string> keys;
  for (const auto& item : saved.items()) keys.insert(item.key());
  for (const auto& item : run.items()) keys.insert(item.key());
  for (const std::string& key : keys) {
    const bool in_both = saved.contains(key) && run.contains(key);
    if (in_both && saved.at(key).is_object() && run.at(key).is_object()) {
      add_differences(saved.at(key), run.at(key), path + key + ".", differences);
    } else if (!in_both || saved.at(key) != run.at(key)) {
      differences.push_back(fmt::format("model.{}{} is {} in the checkpoint and {} in this run",
                                        path, key, value_text(saved, key), value_text(run, key)));
    }
  }
}

}  // namespace

void check_same_model(const Json& saved, const Json& run, const std::string& checkpoint,
                      const std::string& advice) {
  require(saved.is_object() && run.is_object(), "the config of a model must be an object");
  std::vector<std::string> differences;
  add_differences(saved, run, "", differences);
  std::string lines;
  for (const std::string& difference : differences) lines += "\n  " + difference;
  require(differences.empty(), "the checkpoint {} is of another model:{}\n{}", checkpoint, lines,
          advice);
}

}  // namespace tessera
