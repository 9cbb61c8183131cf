#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "launch/checkpoint/format/box.h"
#include "launch/support/text/json.h"

namespace tessera {

inline constexpr int64_t kFormatVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr size_t kMaxManifestBytes = size_t{256} << 20;
/// Larger attachments are refused.
inline constexpr int64_t kMaxAttachmentBytes = int64_t{256} << 20;
/// A tensor with more slices is refused. With ZeRO-1, each data rank has up to 5 of a tensor.
inline constexpr size_t kMaxSlices = size_t{1} << 20;
/// A later step and a larger number of samples are refused, so that a run can add to them.
inline constexpr int64_t kMaxPosition = int64_t{1} << 62;

/// A tensor's kind. Each kind has its own files, so that weights can be read alone.
inline constexpr const char* kModelKind = "model";
inline constexpr const char* kOptimizerKind = "optimizer";

/// A stored box of a global tensor.
struct StoredSlice {
  std::string file;  ///< a file of the checkpoint's folder
  std::string key;   ///< the name of the slice in that file
  Box box;
  std::string checksum;  ///< checksum of the slice's bytes; see Checksum
};

/// A global tensor; its slices tile it.
struct StoredTensor {
  std::string kind;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<StoredSlice> slices;
};

struct StoredFile {
  int64_t size = 0;
  std::string header_checksum;  ///< of all bytes before the first tensor
};

/// A small file stored next to the tensors, such as "tokenizer.json".
struct StoredAttachment {
  int64_t size = 0;
  std::string checksum;  ///< checksum of its bytes
};

/// The contents of a checkpoint's manifest.json.
struct Manifest {
  std::string tessera_version;
  int64_t step = 0;
  int64_t samples = 0;          ///< the position in the global order of samples
  Json model = Json::object();  ///< the model's config
  Json extra = Json::object();  ///< other data of the run
  std::map<std::string, StoredFile> files;
  std::map<std::string, StoredAttachment> attachments;
  std::map<std::string, StoredTensor> tensors;
};

/// Throws, starting with `where`, unless `name` is a plain file name that ends in `suffix`, so that
/// a manifest cannot refer to files outside its folder.
void require_file_name(const std::string& name, std::string_view suffix, const std::string& where);

/// Throws, starting with `where`, unless `name` is a valid attachment name: a plain name that ends
/// in .json or .safetensors and is not kManifestName.
void require_attachment_name(const std::string& name, const std::string& where);

/// The text of manifest.json: JSON whose last line is the checksum of the lines before it.
std::string manifest_text(const Manifest& manifest);

/// Parses such a text, which may be hostile; `source` names it in messages. Throws unless it is
/// undamaged and of a known format version, and all its tensors are tiled by slices in its files.
Manifest parse_manifest(std::string_view text, const std::string& source);

/// Reads the manifest of a step's folder. Throws like parse_manifest().
Manifest read_manifest(const std::filesystem::path& step_folder);

}  // namespace tessera
