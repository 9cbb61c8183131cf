#include "launch/checkpoint/format/manifest.h"

#include <algorithm>

#include "core/error.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/small_file.h"

namespace tessera {

namespace {

constexpr std::string_view kChecksumBegin = "  \"checksum\": \"";
constexpr std::string_view kChecksumEnd = "\"\n}\n";

std::string checksum_line(std::string_view text) {
  const std::string checksum = checksum_of(std::as_bytes(std::span(text.data(), text.size())));
  return fmt::format("{}{}{}", kChecksumBegin, checksum, kChecksumEnd);
}

std::string tensor_line(const std::string& name, const StoredTensor& tensor) {
  Json slices = Json::array();
  for (const StoredSlice& slice : tensor.slices) {
    slices.push_back({{"file", slice.file},
                      {"key", slice.key},
                      {"offset", to_list(slice.box.offset)},
                      {"shape", to_list(slice.box.shape)},
                      {"checksum", slice.checksum}});
  }
  return fmt::format(R"({{"name": {}, "kind": {}, "dtype": "{}", "shape": {}, "slices": {}}})",
                     to_text(name), to_text(tensor.kind), safetensors_name(tensor.dtype),
                     to_text(to_list(tensor.shape)), to_text(slices));
}

std::string file_line(const std::string& name, const StoredFile& file) {
  return fmt::format(R"({{"name": {}, "size": {}, "header_checksum": {}}})", to_text(name),
                     file.size, to_text(file.header_checksum));
}

template <typename Items, typename ToLine>
std::string list_text(const Items& items, ToLine&& to_line) {
  std::string text = "[";
  for (const auto& [name, item] : items) {
    text += fmt::format("{}\n    {}", text.size() == 1 ? "" : ",", to_line(name, item));
  }
  return text + "\n  ]";
}

std::string attachment_line(const std::string& name, const StoredAttachment& attachment) {
  return fmt::format(R"({{"name": {}, "size": {}, "checksum": {}}})", to_text(name),
                     attachment.size, to_text(attachment.checksum));
}

void parse_files(const Json& list, const std::string& source, Manifest& manifest) {
  for (const Json& item : list) {
    const JsonObject object(item, source + ": an item of \"files\"");
    const std::string name = object.text("name");
    require_file_name(name, ".safetensors", source);
    const StoredFile file{object.count("size"), object.text("header_checksum")};
    require(manifest.files.emplace(name, file).second, "{}: the file {} is listed twice", source,
            name);
  }
}

void parse_attachments(const Json& list, const std::string& source, Manifest& manifest) {
  for (const Json& item : list) {
    const JsonObject object(item, source + ": an item of \"attachments\"");
    const std::string name = object.text("name");
    require_attachment_name(name, source);
    require(!manifest.files.contains(name), "{}: the file {} is listed twice", source, name);
    const StoredAttachment attachment{object.count("size"), object.text("checksum")};
    require(attachment.size <= kMaxAttachmentBytes,
            "{}: {} is listed with {} bytes, but at most {} are allowed", source, name,
            attachment.size, kMaxAttachmentBytes);
    require(manifest.attachments.emplace(name, attachment).second, "{}: {} is listed twice", source,
            name);
  }
}

StoredSlice parse_slice(const JsonObject& object, const Manifest& manifest) {
  StoredSlice slice{object.text("file"),
                    object.text("key"),
                    {object.shape("offset"), object.shape("shape")},
                    object.text("checksum")};
  require(manifest.files.count(slice.file) == 1, "{}: a slice is in {}, which is not in \"files\"",
          object.where(), quote(slice.file));
  return slice;
}

void parse_tensors(const Json& list, const std::string& source, Manifest& manifest) {
  for (const Json& item : list) {
    const std::string name = JsonObject(item, source + ": an item of \"tensors\"").text("name");
    const JsonObject object(item, fmt::format("{}: tensor {}", source, quote(name)));
    StoredTensor tensor;
    tensor.kind = object.text("kind");
    require(tensor.kind == kModelKind || tensor.kind == kOptimizerKind,
            "{}: \"kind\" must be \"model\" or \"optimizer\", but is {}", object.where(),
            quote(tensor.kind));
    tensor.dtype = dtype_of_safetensors(object.text("dtype"), object.where());
    tensor.shape = object.shape("shape");
    require(checked_bytes(tensor.shape, tensor.dtype).has_value(),
            "{}: the shape {} has more bytes than fit into 63 bits", object.where(),
            to_string(tensor.shape));
    const Json& slices = object.list("slices");
    require(slices.size() <= kMaxSlices, "{} has {} slices, but at most {} are allowed",
            object.where(), slices.size(), kMaxSlices);
    std::vector<Box> boxes;
    for (const Json& slice : slices) {
      tensor.slices.push_back(parse_slice(JsonObject(slice, object.where()), manifest));
      boxes.push_back(tensor.slices.back().box);
    }
    require_tiling(boxes, tensor.shape, object.where());
    require(manifest.tensors.emplace(name, std::move(tensor)).second, "{} is listed twice",
            object.where());
  }
}

void require_known_version(const JsonObject& object) {
  const int64_t version = object.count("format_version");
  require(
      version <= kFormatVersion,
      "{}: \"format_version\" is {}, but this version of Tessera reads up to {}: the checkpoint "
      "was written by a later version (or is damaged), so use that one",
      object.where(), version, kFormatVersion);
  require(version >= 1, "{}: \"format_version\" is {}, but versions start at 1", object.where(),
          version);
}

void require_undamaged(std::string_view text, const std::string& source) {
  const size_t line = text.rfind(kChecksumBegin);
  require(
      line != std::string_view::npos && text.substr(line) == checksum_line(text.substr(0, line)),
      "{} is damaged: its last line is not the checksum of the lines before it", source);
}

}  // namespace

void require_file_name(const std::string& name, std::string_view suffix, const std::string& where) {
  constexpr size_t kLongest = 255;
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  require(
      plain && name.size() > suffix.size() && name.size() <= kLongest && name[0] != '.' &&
          name.substr(name.size() - suffix.size()) == suffix,
      "{}: a file's name must end in {} and be made of letters, digits, '_', '-' and '.', but is "
      "{}",
      where, suffix, quote(name));
}

void require_attachment_name(const std::string& name, const std::string& where) {
  const bool is_tensor = name.ends_with(".safetensors");
  require_file_name(name, is_tensor ? ".safetensors" : ".json", where);
  require(name != kManifestName, "{}: no attachment can be called {}", where, name);
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = fmt::format(
      R"({{
  "format_version": {},
  "tessera_version": {},
  "step": {},
  "samples": {},
  "model": {},
  "extra": {},
  "files": {},
  "attachments": {},
  "tensors": {},
)",
      kFormatVersion, to_text(manifest.tessera_version), manifest.step, manifest.samples,
      to_text(manifest.model), to_text(manifest.extra), list_text(manifest.files, file_line),
      list_text(manifest.attachments, attachment_line), list_text(manifest.tensors, tensor_line));
  return text + checksum_line(text);
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  require(text.size() <= kMaxManifestBytes, "{} has {} bytes, but at most {} are allowed", source,
          text.size(), kMaxManifestBytes);
  const Json json = parse_json(text, source);
  const JsonObject object(json, source);
  // Checked before the checksum, which a later version may compute differently.
  require_known_version(object);
  require_undamaged(text, source);
  Manifest manifest;
  manifest.tessera_version = object.text("tessera_version");
  manifest.step = object.count("step");
  manifest.samples = object.count("samples");
  require(manifest.step <= kMaxPosition && manifest.samples <= kMaxPosition,
          "{}: step {} and {} samples: at most 2^62 are possible", source, manifest.step,
          manifest.samples);
  manifest.model = object.object("model");
  manifest.extra = object.object("extra");
  parse_files(object.list("files"), source, manifest);
  parse_attachments(object.list("attachments"), source, manifest);
  parse_tensors(object.list("tensors"), source, manifest);
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& step_folder) {
  const auto path = step_folder / kManifestName;
  constexpr size_t kMostBytes = size_t{1} << 30;
  return parse_manifest(read_small_file(path.string(), kMostBytes), path.string());
}

}  // namespace tessera
