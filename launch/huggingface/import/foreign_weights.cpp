#include "launch/huggingface/import/foreign_weights.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/format/box.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/stored_values.h"
#include "launch/support/text/json.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kHalfBytes = 2;

/// Refuses PyTorch's own files: loading them runs the code they contain.
void refuse_pickles(const fs::path& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    require(!fs::exists(folder / name),
            "{} has {}, but no {}: load it in Python with from_pretrained() and write it again "
            "with save_pretrained(DIR, safe_serialization=True)",
            folder.string(), name, kWeights);
  }
  fail("{} has neither {} nor {}: is it a folder that save_pretrained() wrote?", folder.string(),
       kWeights, kIndex);
}

}  // namespace

ForeignWeights::ForeignWeights(const fs::path& folder) {
  if (fs::exists(folder / kWeights)) {
    open(folder / kWeights);
  } else if (fs::exists(folder / kIndex)) {
    read_index(folder / kIndex);
  } else {
    refuse_pickles(folder);
  }
  remove_wrappers();
}

ForeignWeights ForeignWeights::in_file(const fs::path& path) {
  ForeignWeights weights;
  weights.open(path);
  return weights;
}

void ForeignWeights::open(const fs::path& path) {
  const SafetensorsFile& file = files_.emplace_back(path, ForeignDTypes::keep);
  const auto add = [&](const std::string& name, const Place& place) {
    const auto [known, is_new] = tensors_.emplace(name, place);
    require(is_new, "the tensor {} is in {} and in {}", quote(name), known->second.file->path(),
            file.path());
  };
  for (const auto& [name, entry] : file.entries()) add(name, {&file, &entry, nullptr});
  for (const auto& [name, entry] : file.foreign_entries()) add(name, {&file, nullptr, &entry});
}

void ForeignWeights::read_index(const fs::path& index) {
  const Json json = read_json_file(index, kMaxSafetensorsHeader);
  const Json& weight_map = JsonObject(json, index.string()).object("weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, name] : weight_map.items()) {
    require(name.is_string(), "{}: the file of {} must be a string, but is {}", index.string(),
            quote(tensor), json_type(name));
    require_file_name(name.get_ref<const std::string&>(), ".safetensors", index.string());
    names.insert(name.get<std::string>());
  }
  for (const std::string& name : names) open(index.parent_path() / name);
  for (const auto& [tensor, name] : weight_map.items()) {
    const auto found = tensors_.find(tensor);
    const fs::path path = index.parent_path() / name.get<std::string>();
    require(found != tensors_.end() && found->second.file->path() == path.string(),
            "{} says that {} is in {}, but it is not", index.string(), quote(tensor),
            path.string());
  }
}

template <typename NameOf>
void ForeignWeights::rename(NameOf&& name_of) {
  std::map<std::string, Place> renamed;
  for (const auto& [name, place] : tensors_) {
    const auto [known, is_new] = renamed.emplace(name_of(name), place);
    require(is_new, "{}: two tensors are {} without what wrappers put into their names",
            place.file->path(), quote(known->first));
  }
  tensors_ = std::move(renamed);
}

void ForeignWeights::remove_wrappers() {
  for (const std::string part :
       {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."}) {
    bool found = false;
    rename([&](std::string name) {
      for (size_t at; (at = name.find(part)) != std::string::npos; found = true) {
        name.erase(at, part.size());
      }
      return name;
    });
    if (found) wrappers_ += part;
  }
  const auto all_start = [&](std::string_view prefix) {
    return !tensors_.empty() && std::ranges::all_of(tensors_, [&](const auto& tensor) {
      return tensor.first.starts_with(prefix);
    });
  };
  // Causal language models have "model." in all names but that of the head; without it they are
  // names of the base model, which match, too.
  constexpr std::string_view kPrefixes[] = {"base_model.model.", "module.", "model."};
  for (size_t i = 0; i < std::size(kPrefixes);) {
    const std::string_view prefix = kPrefixes[i++];
    if (!all_start(prefix)) continue;
    rename([&](const std::string& name) { return name.substr(prefix.size()); });
    wrappers_ += prefix;
    i = 0;
  }
}

void ForeignWeights::require_float(const std::string& name) const {
  const Place& place = tensors_.at(name);
  const bool fits =
      place.entry != nullptr ? is_float(place.entry->dtype) : place.foreign->dtype == "F16";
  require(
      fits, "{}: the tensor {} is {}, but F32, F16, BF16 or F64 is needed", place.file->path(),
      quote(name),
      place.entry != nullptr ? safetensors_name(place.entry->dtype) : quote(place.foreign->dtype));
}

void ForeignWeights::read(const std::string& name, std::span<float> out) const {
  require_float(name);
  read_run(name, 0, out);
}

void ForeignWeights::read_run(const std::string& name, int64_t begin, std::span<float> out) const {
  const Place& place = tensors_.at(name);
  const auto count = std::ssize(out);
  if (place.entry != nullptr) {
    const DType dtype = place.entry->dtype;
    const auto bytes = place.file->bytes(*place.entry);
    widen_to_float(dtype, bytes.data() + static_cast<size_t>(begin) * size_of(dtype), out.data(),
                   count);
  } else {
    const auto bytes = place.file->bytes(*place.foreign);
    widen_half_to_float(bytes.data() + static_cast<size_t>(begin) * kHalfBytes, out.data(), count);
  }
  const bool finite = std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); });
  require(finite, "{}: the tensor {} has an element that is NaN, infinite or too large for fp32",
          place.file->path(), quote(name));
}

bool ForeignWeights::same(const std::string& a, const std::string& b) const {
  const Shape& shape = tensors_.at(a).shape();
  if (shape != tensors_.at(b).shape()) return false;
  require_float(a);
  require_float(b);
  constexpr int64_t kRun = 1 << 16;
  const int64_t count = checked_numel(shape).value_or(0);
  std::vector<float> first(static_cast<size_t>(std::min(count, kRun))), second(first);
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const auto run = static_cast<size_t>(std::min(kRun, count - begin));
    read_run(a, begin, std::span(first).first(run));
    read_run(b, begin, std::span(second).first(run));
    if (!std::equal(first.begin(), first.begin() + static_cast<int64_t>(run), second.begin())) {
      return false;
    }
  }
  return true;
}

}  // namespace tessera
