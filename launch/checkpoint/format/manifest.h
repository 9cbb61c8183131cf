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
/// A larger attachment is refused.
inline constexpr int64_t kMaxAttachmentBytes = int64_t{256} << 20;
/// More slices of one tensor are refused.
inline constexpr size_t kMaxSlices = 16384;

/// What a tensor belongs to; each kind has its own files, so weights can be read alone.
inline constexpr const char* kModelKind = "model";
inline constexpr const char* kOptimizerKind = "optimizer";

/// Where a box of a global tensor is stored.
struct StoredSlice {
  std::string file;  ///< a file of the checkpoint's folder
  std::string key;   ///< the name of the slice in that file
  Box box;
  std::string checksum;  ///< of the slice's bytes; see Checksum
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

/// A small file that is kept beside the tensors, as "tokenizer.json".
struct StoredAttachment {
  int64_t size = 0;
  std::string checksum;  ///< of its bytes
};

/// What a checkpoint holds: the content of its manifest.json.
struct Manifest {
  std::string tessera_version;
  int64_t step = 0;
  int64_t samples = 0;          ///< the position in the global order of samples
  Json model = Json::object();  ///< the model's config
  Json extra = Json::object();  ///< whatever else the run wants to keep
  std::map<std::string, StoredFile> files;
  std::map<std::string, StoredAttachment> attachments;
  std::map<std::string, StoredTensor> tensors;
};

/// Throws, starting with `where`, unless `name` is a plain name that ends in `suffix`, so that what
/// lists files can not reach out of its folder.
void require_file_name(const std::string& name, std::string_view suffix, const std::string& where);

/// Throws, starting with `where`, unless `name` can be that of an attachment: a plain name that
/// ends in .json and is not kManifestName.
void require_attachment_name(const std::string& name, const std::string& where);

/// The bytes of manifest.json: JSON whose last line is the checksum of the lines before it.
std::string manifest_text(const Manifest& manifest);

/// The manifest of such a text, which may be hostile; `source` names it in messages. Throws unless
/// it is undamaged, of a format version that is known, and all of its tensors are tiled by slices
/// that are in its files.
Manifest parse_manifest(std::string_view text, const std::string& source);

/// The manifest of a step's folder; throws as parse_manifest.
Manifest read_manifest(const std::filesystem::path& step_folder);

}  // namespace tessera
