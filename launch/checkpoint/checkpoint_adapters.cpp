#include "launch/checkpoint/checkpoint_adapters.h"

#include "parallel/layers/low_rank_adapter.h"

namespace tessera {

std::set<std::string> trained_beside_adapters(const Json& extra) {
  std::set<std::string> names;
  const Json listed = extra.value(kTrainedKey, Json::array());
  for (const Json& name : listed) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

std::set<std::string> trained_beside_adapters(const Json& extra, const ParameterStore& store) {
  std::set<std::string> names = trained_beside_adapters(extra);
  for (const Parameter& parameter : store.parameters()) {
    if (!parameter.frozen && !is_of_low_rank_adapter(parameter.name)) names.insert(parameter.name);
  }
  return names;
}

}  // namespace tessera
