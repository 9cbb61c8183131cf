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
// little-endian length of a JSON header, the header, and the tensors' bytes without gaps.

namespace tessera {

/// Longer headers are refused, as in the reference implementation.
inline constexpr size_t kMaxSafetensorsHeader = 100'000'000;

/// "F32", "BF16", "F64", "I32", "I64" or "U8".
std::string safetensors_name(DType dtype);

/// The dtype of such a name. Throws for any other name, naming `where` and the known dtypes.
DType dtype_of_safetensors(const std::string& name, const std::string& where);

/// A tensor in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t begin = 0;  ///< first byte, counted from the end of the header
  size_t end = 0;    ///< one past the last byte
};

/// A tensor of a dtype that DType lacks, written by another program. Only for F16 are its bytes
/// checked against its shape.
struct ForeignEntry {
  std::string dtype;  ///< "F16", "BOOL", ...
  Shape shape;
  size_t begin = 0;  ///< see SafetensorsEntry
  size_t end = 0;
};

/// How to treat tensors of such dtypes.
enum class ForeignDTypes : uint8_t { refuse, keep };

/// Writes a safetensors file sequentially, keeping at most one piece of it in memory.
class SafetensorsWriter {
 public:
  /// Creates the file, which must not exist, and writes the header. `entries` are in the order in
  /// which they will be appended; their `begin` and `end` are computed here. To keep every tensor
  /// aligned to its dtype, put larger dtypes first. `metadata` is added to the header for other
  /// programs.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  /// Writes the next tensor, which is on the CPU and has the entry's dtype and shape. Returns the
  /// checksum of its bytes.
  std::string append(const Tensor& tensor);

  /// Flushes the file to disk. Throws if a tensor is missing.
  void finish();

  size_t size() const { return file_.size(); }
  /// Checksum of the header with its length: all bytes before the first tensor.
  const std::string& header_checksum() const { return header_checksum_; }

 private:
  std::string path_;
  OutputFile file_;
  std::vector<SafetensorsEntry> entries_;
  size_t appended_ = 0;
  std::string header_checksum_;
};

/// The bytes of a safetensors file with this tensor alone, which is on the CPU.
std::string safetensors_bytes(const std::string& name, const Tensor& tensor);

/// A memory-mapped safetensors file. Opening it checks the whole header: its length against the
/// file's, every dtype, every shape against its bytes, and that the tensors fill the rest of the
/// file without gaps or overlaps.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path,
                           ForeignDTypes foreign = ForeignDTypes::refuse);

  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  /// By name; empty unless the file was opened with ForeignDTypes::keep.
  const std::map<std::string, ForeignEntry>& foreign_entries() const { return foreign_; }
  /// The entry of this name. Throws if there is none.
  const SafetensorsEntry& entry(const std::string& name) const;
  /// A tensor's bytes, row-major and little-endian. They may be unaligned in files written by
  /// others.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const {
    return data(entry.begin, entry.end);
  }
  std::span<const std::byte> bytes(const ForeignEntry& entry) const {
    return data(entry.begin, entry.end);
  }
  /// Metadata in the header; only strings are kept.
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
