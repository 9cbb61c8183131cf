#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/parameters/parameter.h"
#include "core/tensor.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/safetensors.h"

namespace tessera {

/// The average of a parameter's weights (optimizer.ema_decay) is stored as "<name>/ema".
inline constexpr const char* kEmaSuffix = "/ema";

/// A checkpoint opened for reading: any range of any tensor, whatever layout it was saved on. Files
/// are mapped on first use. Not thread-safe.
class Checkpoint {
 public:
  /// Opens a step's folder and reads its manifest. Throws if the manifest is damaged, hostile or of
  /// a later format version.
  static Checkpoint open(const std::filesystem::path& step_folder);

  const std::filesystem::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  bool has(const std::string& name) const { return manifest_.tensors.count(name) == 1; }
  /// Whether it has an average of the trained weights.
  bool has_average() const;
  /// From now on, the name of a trained parameter stands for its average. The other weights were
  /// frozen and are their own average. Throws if the checkpoint has none.
  void use_average();
  /// Throws, naming the tensor and the checkpoint, if it has no such tensor.
  const StoredTensor& tensor(const std::string& name) const;

  /// out = the shard's piece of the tensor. `out` has exactly the piece's shape; its dtype is the
  /// stored one, or, of stored floats, fp32 or bf16, rounded to nearest (fp64 to fp32 first). Each
  /// slice that the piece touches is checked once, as a whole, against its checksum. Throws, naming
  /// tensor, file and reason, if a slice is damaged or the tensor has no such piece.
  void read(const std::string& name, const Shard& shard, Tensor out);

  /// As above, but also throws, naming both shapes, if the stored tensor is not of `global_shape`.
  void read(const std::string& name, const Shape& global_shape, const Shard& shard, Tensor out);

  /// As above, for a box of a tensor of `global_shape`.
  void read_box(const std::string& name, const Shape& global_shape, const Box& box, Tensor out);

  /// Checks the bytes of a slice against its checksum and returns them. Throws if they or their
  /// file differ from the manifest.
  std::span<const std::byte> verified_bytes(const StoredTensor& tensor, const StoredSlice& slice);

  bool has_attachment(const std::string& name) const {
    return manifest_.attachments.count(name) == 1;
  }
  /// Checks the bytes of an attachment against its checksum and returns them. Throws if it is
  /// missing or differs from the manifest.
  std::string attachment(const std::string& name) const;

  /// A file of the checkpoint, with its size and header checked.
  const SafetensorsFile& file(const std::string& name);

 private:
  void require_global_shape(const std::string& name, const Shape& global_shape) const;

  Checkpoint(std::filesystem::path path, Manifest manifest)
      : path_(std::move(path)), manifest_(std::move(manifest)) {}

  std::filesystem::path path_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;
  std::set<std::pair<std::string, std::string>> verified_;  // file and key of slices
};

}  // namespace tessera
