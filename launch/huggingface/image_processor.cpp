#include "launch/huggingface/image_processor.h"

#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "launch/config/values/source_text.h"
#include "launch/huggingface/import/foreign_json.h"
#include "launch/huggingface/sentence_modules.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr const char* kFile = "preprocessor_config.json";
constexpr double kRescale = 1.0 / 255.0;
constexpr int kBilinear = 2;  // PIL.Image.Resampling.BILINEAR

Json of_channels(const std::vector<double>& values, int64_t channels) {
  if (std::ssize(values) == channels) return values;
  return std::vector<double>(static_cast<size_t>(channels), values.at(0));
}

std::vector<double> numbers(const Json& json, const char* key, const std::string& where) {
  const Json& list = json.at(key);
  require(list.is_array() && !list.empty(), "{}: \"{}\" must be a list of numbers", where, key);
  std::vector<double> values;
  for (const Json& item : list) {
    require(item.is_number() && std::isfinite(item.get<double>()),
            "{}: \"{}\" has {}, but must be a list of numbers", where, key, item.dump());
    values.push_back(item.get<double>());
  }
  return values;
}

/// Notes if transformers makes images of another size fit in another way than ImageEncoder.
void note_resizing(const Json& json, const ForeignJson& reader, ImportedConfig& config) {
  std::vector<std::string> differing;
  const auto differs = [&](const char* key) {
    differing.push_back(fmt::format("\"{}\" is {}", key, excerpt(json.at(key).dump(), 100)));
  };
  const int64_t size = config.model.image_size;
  if (!reader.flag("do_resize", true)) {
    differs("do_resize");
  } else {
    if (reader.has("resample") && json.at("resample") != kBilinear) differs("resample");
    const Json both = {{"height", size}, {"width", size}};
    if (reader.has("size") && json.at("size") != size && json.at("size") != both) differs("size");
  }
  if (differing.empty()) return;
  if (reader.flag("do_center_crop", false)) differs("do_center_crop");
  config.notes.push_back(fmt::format(
      "{} in {}, but Tessera resizes images to {} × {} pixels bilinearly, and crops none: for the "
      "results of transformers, pass images of this size that its processor made",
      fmt::join(differing, " and "), kFile, size, size));
}

}  // namespace

std::map<std::string, std::string> image_processor_files(const ModelConfig& model) {
  if (!model.has_images()) return {};
  const Json json = {{"image_processor_type", "ViTImageProcessor"},
                     {"do_resize", true},
                     {"size", {{"height", model.image_size}, {"width", model.image_size}}},
                     {"resample", kBilinear},
                     {"do_rescale", true},
                     {"rescale_factor", kRescale},
                     {"do_normalize", true},
                     {"image_mean", of_channels(model.image_mean, model.num_channels)},
                     {"image_std", of_channels(model.image_std, model.num_channels)}};
  return {{kFile, json.dump(2) + "\n"}};
}

void read_image_processor(const std::filesystem::path& folder, ImportedConfig& config) {
  const std::filesystem::path path = folder / kFile;
  if (!std::filesystem::exists(path)) {
    config.notes.push_back(
        fmt::format("there is no {}, so model.image_mean and model.image_std are 0.5", kFile));
    return;
  }
  const std::string where = path.string();
  const Json json = read_small_json(path);
  const ForeignJson reader(json, where);
  reader.require_flag("do_rescale", true, "Tessera's models see numbers from 0 to 1");
  if (json.contains("rescale_factor")) {
    const Json& factor = json.at("rescale_factor");
    require(factor.is_number() && std::abs(factor.get<double>() - kRescale) < 1e-9,
            "{}: \"rescale_factor\" is {}, but must be 1/255", where, factor.dump());
  }
  note_resizing(json, reader, config);
  ModelConfig& model = config.model;
  if (!reader.flag("do_normalize", true)) {
    model.image_mean = {0.0};
    model.image_std = {1.0};
    return;
  }
  if (json.contains("image_mean")) model.image_mean = numbers(json, "image_mean", where);
  if (json.contains("image_std")) model.image_std = numbers(json, "image_std", where);
  for (const std::vector<double>* values : {&model.image_mean, &model.image_std}) {
    require(values->size() == 1 || std::ssize(*values) == model.num_channels,
            "{}: \"image_mean\" and \"image_std\" have {} and {} numbers, but the model has {} "
            "channels",
            where, model.image_mean.size(), model.image_std.size(), model.num_channels);
  }
  for (const double std : model.image_std) {
    require(std > 0.0, "{}: \"image_std\" has {}, but must be above 0", where, std);
  }
}

}  // namespace tessera
