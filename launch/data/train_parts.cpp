#include "launch/data/train_parts.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

bool is_same(const Json& saved, const TrainPart& part) {
  constexpr double kRounding = 1e-12;  // rescaled weights change shares by a few ulps
  if (!saved.is_object() || !saved.contains("samples") || !saved.contains("share")) return false;
  const Json &samples = saved["samples"], &share = saved["share"];
  return samples.is_number_integer() && samples == part.samples && share.is_number() &&
         std::abs(share.get<double>() - part.share) <= kRounding * part.share;
}

}  // namespace

Json train_parts_json(const std::vector<TrainPart>& parts) {
  Json json = Json::array();
  for (const auto& [samples, share] : parts) {
    json.push_back({{"samples", samples}, {"share", share}});
  }
  return json;
}

bool has_same_parts(const Json& extra, const std::vector<TrainPart>& parts) {
  if (!extra.contains(kTrainPartsKey)) return true;
  const Json& saved = extra[kTrainPartsKey];
  return saved.is_array() &&
         std::equal(saved.begin(), saved.end(), parts.begin(), parts.end(), is_same);
}

}  // namespace tessera
