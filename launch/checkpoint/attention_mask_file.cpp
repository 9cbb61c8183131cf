#include "launch/checkpoint/attention_mask_file.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/checkpoint/model_json.h"
#include "launch/support/files/checksum.h"
#include "launch/support/text/printable_text.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr const char* kHidden = "hidden";
constexpr const char* kVisible = "visible";
constexpr const char* kAdditive = "additive";

/// The only tensor of a file.
struct FoundTensor {
  std::string name, dtype;
  Shape shape;
  std::span<const std::byte> bytes;
};

constexpr const char* kAllowed =
    "a mask file has one tensor: hidden or visible, of bool or uint8, or additive, of fp32";

FoundTensor only_tensor(const SafetensorsFile& file) {
  std::vector<FoundTensor> found;
  for (const auto& [name, entry] : file.entries()) {
    found.push_back({name, safetensors_name(entry.dtype), entry.shape, file.bytes(entry)});
  }
  for (const auto& [name, entry] : file.foreign_entries()) {
    found.push_back({name, entry.dtype, entry.shape, file.bytes(entry)});
  }
  require(found.size() == 1, "{} has {} tensors: {}", file.path(), found.size(), kAllowed);
  const FoundTensor& tensor = found.front();
  const bool is_boolean = tensor.name == kHidden || tensor.name == kVisible;
  require(is_boolean || tensor.name == kAdditive, "{} has a tensor {}: {}", file.path(),
          quote(tensor.name), kAllowed);
  const bool fits =
      is_boolean ? tensor.dtype == "BOOL" || tensor.dtype == "U8" : tensor.dtype == "F32";
  require(fits, "{}: {} is {}: {}", file.path(), tensor.name, printable(tensor.dtype), kAllowed);
  return tensor;
}

/// (1, T, T) or (H, T, T).
Shape plane_shape(const FoundTensor& tensor, const std::string& path, const ModelConfig& model) {
  const int64_t length = model.seq_length, heads = model.num_heads;
  const Shape one = {length, length}, one_of_three = {1, length, length};
  const Shape of_heads = {heads, length, length};
  if (tensor.shape == one || tensor.shape == one_of_three) return one_of_three;
  require(tensor.shape == of_heads,
          "{}: {} has the shape {}, but must be (T, T) = {} or (H, T, T) = {}, where T is "
          "model.seq_length, {}, and H is model.num_heads, {}",
          path, tensor.name, to_string(tensor.shape), to_string(one), to_string(of_heads), length,
          heads);
  return of_heads;
}

/// "element (1, 5, 3)"
std::string place_of(int64_t i, const Shape& shape) {
  const int64_t length = shape[1], t = i / length % length, s = i % length;
  return shape[0] == 1 ? fmt::format("element ({}, {})", t, s)
                       : fmt::format("element ({}, {}, {})", i / length / length, t, s);
}

void copy_hidden(const FoundTensor& tensor, const std::string& path, const Tensor& to) {
  const uint8_t hides = tensor.name == kHidden ? 1 : 0;
  uint8_t* out = to.data<uint8_t>();
  for (int64_t i = 0; i < to.numel(); ++i) {
    const auto value = std::to_integer<int>(tensor.bytes[static_cast<size_t>(i)]);
    require(value == 0 || value == 1, "{}: {} of {} is {}, but must be 0 or 1", path,
            place_of(i, to.shape()), tensor.name, value);
    out[i] = value == hides ? 1 : 0;
  }
}

void copy_additive(const FoundTensor& tensor, const std::string& path, const Tensor& to) {
  std::memcpy(to.raw(), tensor.bytes.data(), tensor.bytes.size());
  const float* values = to.data<float>();
  for (int64_t i = 0; i < to.numel(); ++i) {
    const bool is_valid = !std::isnan(values[i]) && (std::isfinite(values[i]) || values[i] < 0.0f);
    require(is_valid, "{}: {} of additive is {}, but must be a finite number, or -inf to hide",
            path, place_of(i, to.shape()), values[i]);
  }
}

/// Throws if a layer hides all keys from a query of a whole text.
void require_visible_keys(const ModelConfig& model) {
  const ModelTraits traits = traits_of(model);
  const int64_t length = model.seq_length, heads = model.attention_plane->heads();
  for (const bool is_local : {false, true}) {
    std::optional<int64_t> layer;
    for (int64_t i = model.num_layers; i-- > 0;) {
      if (model.is_local(i) == is_local) layer = i;
    }
    if (!layer) continue;
    for (int64_t i = 0; i < heads * length; ++i) {
      const int64_t h = i / length, t = i % length;
      int64_t s = 0;
      while (s < length && traits.hides(t, s, is_local, h)) ++s;
      require(s < length,
              "{}: in layer {}{}, the query at position {} sees no key at all, because the file, "
              "the causal mask and the window together hide all of them: leave each query at "
              "least one key, as a rule its own",
              *model.attention_mask_file, *layer, heads == 1 ? "" : fmt::format(", head {}", h), t);
    }
  }
}

}  // namespace

std::shared_ptr<const AttentionPlane> read_attention_mask(const std::filesystem::path& path,
                                                          const ModelConfig& model) {
  const SafetensorsFile file(path, ForeignDTypes::keep);
  const FoundTensor tensor = only_tensor(file);
  const Shape shape = plane_shape(tensor, file.path(), model);
  const bool is_additive = tensor.name == kAdditive;
  const DType dtype = is_additive ? DType::f32 : DType::u8;
  require(tensor.bytes.size() == static_cast<size_t>(shape.numel()) * size_of(dtype),
          "{}: {} {} cannot be stored in {} bytes", file.path(), tensor.dtype,
          to_string(tensor.shape), tensor.bytes.size());
  auto plane = std::make_shared<AttentionPlane>();
  plane->values = OwnedTensor(shape, dtype);
  const auto copy_values = is_additive ? copy_additive : copy_hidden;
  copy_values(tensor, file.path(), plane->values.tensor);
  const std::string bytes = attention_mask_attachment(*plane);
  plane->checksum = checksum_of(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return plane;
}

void load_attention_mask(ModelConfig& model) {
  if (!model.attention_mask_file) return;
  try {
    model.attention_plane = read_attention_mask(*model.attention_mask_file, model);
    require_visible_keys(model);
  } catch (const Error& error) {
    fail("model.attention_mask_file: {}", error.what());
  }
}

std::string attention_mask_attachment(const AttentionPlane& plane) {
  std::string bytes =
      safetensors_bytes(plane.is_additive() ? kAdditive : kHidden, plane.values.tensor);
  require(static_cast<int64_t>(bytes.size()) <= kMaxAttachmentBytes,
          "an attention mask of {} has {} bytes, but a checkpoint keeps at most {}: let all heads "
          "share a plane, or use bool, a quarter of fp32",
          to_string(plane.values.tensor.shape()), bytes.size(), kMaxAttachmentBytes);
  return bytes;
}

ModelConfig model_of(const Checkpoint& checkpoint) {
  ModelConfig model = model_from_json(checkpoint.manifest().model);
  if (!model.attention_mask_file) return model;
  const std::string checksum = *model.attention_mask_file;
  require(checkpoint.has_attachment(kAttentionMaskAttachment),
          "checkpoint {} has no {}, but its model was trained with the mask {}",
          checkpoint.path().string(), kAttentionMaskAttachment, checksum);
  checkpoint.attachment(kAttentionMaskAttachment);  // throws unless it is intact
  const std::filesystem::path path = checkpoint.path() / kAttentionMaskAttachment;
  model.attention_mask_file = path.string();
  model.attention_plane = read_attention_mask(path, model);
  require(model.attention_plane->checksum == checksum,
          "{} has the checksum {}, but the checkpoint's model was trained with the mask {}",
          path.string(), model.attention_plane->checksum, checksum);
  return model;
}

}  // namespace tessera
