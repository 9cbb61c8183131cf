#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/files/output_file.h"
#include "launch/support/text/json.h"

// The safetensors format (https://github.com/huggingface/safetensors#format): eight bytes with the
// little-endian length of a JSON header, the header, then the tensors' bytes without gaps.

namespace tessera {

/// A longer header is refused, as by the reference implementation.
inline constexpr size_t kMaxSafetensorsHeader = 100'000'000;

/// "F32", "BF16", "F64", "I32", "I64" or "U8".
std::string safetensors_name(DType dtype);

/// The dtype of such a name; throws, naming `where` and the dtypes that are known, for any other.
DType dtype_of_safetensors(const std::string& name, const std::string& where);

/// A tensor in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t begin = 0;  ///< first byte, counted from the end of the header
  size_t end = 0;    ///< one past the last byte
};

/// A tensor whose dtype is none of DType's, as other programs write. Only of F16 is it known that
/// its bytes fit its shape.
struct ForeignEntry {
  std::string dtype;  ///< "F16", "BOOL", ...
  Shape shape;
  size_t begin = 0;  ///< as in SafetensorsEntry
  size_t end = 0;
};

/// What to do with a file that has tensors of such dtypes.
enum class ForeignDTypes : uint8_t { refuse, keep };

/// Writes a safetensors file from begin to end without holding more than one piece of it.
class SafetensorsWriter {
 public:
  /// Creates the file, which may not exist, and writes the header: `entries` in the order in which
  /// they will be appended; their `begin` and `end` are computed here. To keep every tensor aligned
  /// to its dtype, put larger dtypes first. `metadata` stands in the header for other programs.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  /// Writes the next tensor, on the CPU and of the entry's dtype and shape; returns the checksum of
  /// its bytes.
  std::string append(const Tensor& tensor);

  /// Returns when the file is on the disk; throws if a tensor is missing.
  void finish();

  size_t size() const { return file_.size(); }
  /// Of the header with its length: all bytes before the first tensor.
  const std::string& header_checksum() const { return header_checksum_; }

 private:
  std::string path_;
  OutputFile file_;
  std::vector<SafetensorsEntry> entries_;
  size_t appended_ = 0;
  std::string header_checksum_;
};

/// A safetensors file mapped into memory. Opening one checks the whole header: its length against
/// the file's, every dtype, every shape against its bytes, and that the tensors fill the rest of
/// the file without gap or overlap.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path,
                           ForeignDTypes foreign = ForeignDTypes::refuse);

  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  /// By name; none unless the file was opened with ForeignDTypes::keep.
  const std::map<std::string, ForeignEntry>& foreign_entries() const { return foreign_; }
  /// The entry of this name; throws if there is none.
  const SafetensorsEntry& entry(const std::string& name) const;
  /// A tensor's bytes, row-major and little-endian; in files that others wrote they may lie at any
  /// address.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const {
    return data(entry.begin, entry.end);
  }
  std::span<const std::byte> bytes(const ForeignEntry& entry) const {
    return data(entry.begin, entry.end);
  }
  /// What other programs put beside the tensors; only texts are kept.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The header with its length.
  std::span<const std::byte> header() const { return file_.bytes().first(data_begin_); }
  size_t size() const { return file_.bytes().size(); }

 private:
  void read_header(ForeignDTypes foreign);
  void read_metadata(const Json& metadata);
  void require_filled() const;
  std::span<const std::byte> data(size_t begin, size_t end) const {
    return file_.bytes().subspan(data_begin_ + begin, end - begin);
  }

  std::string path_;
  MappedFile file_;
  size_t data_begin_ = 0;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, ForeignEntry> foreign_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tessera
