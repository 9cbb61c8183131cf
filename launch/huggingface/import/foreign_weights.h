#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "launch/checkpoint/format/safetensors.h"

namespace tessera {

/// The weights in a folder written by save_pretrained(): model.safetensors, or the files listed in
/// model.safetensors.index.json, mapped into memory.
class ForeignWeights {
 public:
  /// Throws, naming the file, if there are no weights, or a file is damaged, hostile, or outside
  /// the folder.
  explicit ForeignWeights(const std::filesystem::path& folder);

  /// The parts that wrappers of a training program put into all names, or into any, as in
  /// "module._orig_mod."; "" without one. tensors() leaves them out.
  const std::string& wrappers() const { return wrappers_; }

  /// The weights in a single file.
  static ForeignWeights in_file(const std::filesystem::path& path);

  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafetensorsEntry* entry = nullptr;  ///< or
    const ForeignEntry* foreign = nullptr;    ///< one of a dtype that Tessera lacks

    const Shape& shape() const { return entry != nullptr ? entry->shape : foreign->shape; }
  };

  /// All tensors by their names in the files.
  const std::map<std::string, Place>& tensors() const { return tensors_; }

  /// Throws, naming the tensor, its file and its dtype, unless the dtype is F32, F16, BF16 or F64.
  void require_float(const std::string& name) const;

  /// out = all elements of a tensor; the sizes must match. Throws like require_float(), and if an
  /// element is NaN or infinite in fp32.
  void read(const std::string& name, std::span<float> out) const;

  /// Whether two tensors have the same shape and, in fp32, the same elements. Throws like read().
  bool same(const std::string& a, const std::string& b) const;

 private:
  ForeignWeights() = default;
  void open(const std::filesystem::path& path);
  void read_index(const std::filesystem::path& index);
  void remove_wrappers();
  /// Names each tensor name_of(its name). Throws if two get the same one.
  template <typename NameOf>
  void rename(NameOf&& name_of);
  /// Reads elements [begin, begin + out.size()) of a dtype that require_float() accepts.
  void read_run(const std::string& name, int64_t begin, std::span<float> out) const;

  std::deque<SafetensorsFile> files_;
  std::map<std::string, Place> tensors_;
  std::string wrappers_;
};

}  // namespace tessera
