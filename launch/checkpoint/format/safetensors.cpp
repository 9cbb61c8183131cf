#include "launch/checkpoint/format/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/error.h"
#include "launch/checkpoint/format/box.h"
#include "launch/support/files/checksum.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr size_t kHeaderAlignment = 8;
constexpr size_t kPieceBytes = size_t{1} << 20;  // stays in the cache between checksum and write
constexpr size_t kHalfBytes = 2;                 // size of F16
constexpr const char* kMetadataKey = "__metadata__";

constexpr std::array<DType, 6> kDTypes = {DType::f32, DType::bf16, DType::f64,
                                          DType::i32, DType::i64,  DType::u8};

std::string header_text(const std::vector<SafetensorsEntry>& entries,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  for (const SafetensorsEntry& entry : entries) {
    require(entry.name != kMetadataKey && !header.contains(entry.name),
            "{}: a tensor named {} already exists", path, quote(entry.name));
    header[entry.name] = {
        {"dtype", safetensors_name(entry.dtype)},
        {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
        {"data_offsets", {entry.begin, entry.end}},
    };
  }
  std::string text = to_text(header);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  require(text.size() <= kMaxSafetensorsHeader, "{}: the header of {} tensors is larger than {} MB",
          path, entries.size(), kMaxSafetensorsHeader / 1'000'000);
  return text;
}

/// A header after its length.
std::string with_length(const std::string& text) {
  std::string header(kLengthBytes, '\0');
  const uint64_t length = text.size();
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

/// The location of a tensor of any dtype: [begin, end) of the file's data.
std::pair<size_t, size_t> parse_offsets(const JsonObject& object, size_t data_bytes) {
  const std::string& where = object.where();
  const Json& offsets = object.list("data_offsets");
  require(offsets.size() == 2, "{}: \"data_offsets\" must be [begin, end], but has {} numbers",
          where, offsets.size());
  const int64_t begin = json_count(offsets[0], where + ": \"data_offsets\"");
  const int64_t end = json_count(offsets[1], where + ": \"data_offsets\"");
  require(begin <= end && static_cast<uint64_t>(end) <= data_bytes,
          "{}: the bytes [{}, {}) are not within the file's {} bytes of data", where, begin, end,
          data_bytes);
  return {static_cast<size_t>(begin), static_cast<size_t>(end)};
}

SafetensorsEntry parse_entry(const std::string& name, const JsonObject& object, size_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = dtype_of_safetensors(object.text("dtype"), object.where());
  entry.shape = object.shape("shape");
  std::tie(entry.begin, entry.end) = parse_offsets(object, data_bytes);
  const auto bytes = checked_bytes(entry.shape, entry.dtype);
  require(bytes == static_cast<int64_t>(entry.end - entry.begin),
          "{}: {} {} cannot be stored in {} bytes", object.where(), to_string(entry.dtype),
          to_string(entry.shape), entry.end - entry.begin);
  return entry;
}

ForeignEntry parse_foreign(const JsonObject& object, size_t data_bytes) {
  ForeignEntry entry{object.text("dtype"), object.shape("shape")};
  std::tie(entry.begin, entry.end) = parse_offsets(object, data_bytes);
  if (entry.dtype == "F16") {
    const auto elements = checked_numel(entry.shape);
    const size_t bytes = entry.end - entry.begin;
    require(elements && bytes % kHalfBytes == 0 &&
                static_cast<uint64_t>(*elements) == bytes / kHalfBytes,
            "{}: F16 {} cannot be stored in {} bytes", object.where(), to_string(entry.shape),
            bytes);
  }
  return entry;
}

std::optional<DType> find_dtype(const std::string& name) {
  for (const DType dtype : kDTypes) {
    if (safetensors_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace

std::string safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  fail("a dtype has no name in safetensors files");
}

DType dtype_of_safetensors(const std::string& name, const std::string& where) {
  const std::optional<DType> dtype = find_dtype(name);
  require(dtype.has_value(),
          "{}: the dtype {} is not known; known are F32, BF16, F64, I32, I64 and U8", where,
          quote(name));
  return *dtype;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path.string()), file_(path), entries_(std::move(entries)) {
  size_t end = 0;
  for (SafetensorsEntry& entry : entries_) {
    entry.begin = end;
    end += static_cast<size_t>(entry.shape.numel()) * size_of(entry.dtype);
    entry.end = end;
  }
  const std::string header = with_length(header_text(entries_, metadata, path_));
  header_checksum_ = checksum_of(std::as_bytes(std::span(header)));
  file_.write(header);
}

std::string SafetensorsWriter::append(const Tensor& tensor) {
  require(appended_ < entries_.size(), "{}: all {} tensors of the header are written", path_,
          entries_.size());
  const SafetensorsEntry& entry = entries_[appended_];
  require_shape(tensor, entry.shape, "SafetensorsWriter", entry.name.c_str());
  require_dtype(tensor, entry.dtype, "SafetensorsWriter", entry.name.c_str());
  require(tensor.device().is_cpu(), "SafetensorsWriter: {} must be on the cpu, but is {}",
          entry.name, describe(tensor));
  std::span<const std::byte> bytes(static_cast<const std::byte*>(tensor.raw()), tensor.bytes());
  Checksum checksum;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    checksum.update(piece);
    file_.write(piece);
    bytes = bytes.subspan(piece.size());
  }
  ++appended_;
  return checksum.text();
}

void SafetensorsWriter::finish() {
  require(appended_ == entries_.size(), "{}: only {} of the header's {} tensors were written",
          path_, appended_, entries_.size());
  file_.sync_and_close();
}

std::string safetensors_bytes(const std::string& name, const Tensor& tensor) {
  const SafetensorsEntry entry{name, tensor.dtype(), tensor.shape(), 0, tensor.bytes()};
  std::string bytes = with_length(header_text({entry}, {}, name));
  return bytes.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, ForeignDTypes foreign)
    : path_(path.string()), file_(path_) {
  read_header(foreign);
  require_filled();
}

void SafetensorsFile::read_header(ForeignDTypes foreign) {
  const size_t size = file_.bytes().size();
  require(size >= kLengthBytes, "{} has {} bytes, too few for a safetensors file", path_, size);
  uint64_t length = 0;
  std::memcpy(&length, file_.bytes().data(), kLengthBytes);
  require(length <= kMaxSafetensorsHeader,
          "{}: its first 8 bytes announce a header of {} bytes, but at most {} are allowed: it is "
          "not a safetensors file, or it is damaged",
          path_, length, kMaxSafetensorsHeader);
  require(length <= size - kLengthBytes,
          "{}: its first 8 bytes announce a header of {} bytes, but the file has only {}: it is "
          "not a safetensors file, or it is truncated or damaged",
          path_, length, size);
  data_begin_ = kLengthBytes + static_cast<size_t>(length);
  const std::string_view text = file_.text().substr(kLengthBytes, static_cast<size_t>(length));
  const Json header = parse_json(text, "the header of " + path_);
  require(header.is_object(), "the header of {} must be an object, but is {}", path_,
          json_type(header));
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      read_metadata(value);
      continue;
    }
    require(name.size() <= kMaxJsonText,
            "{}: a tensor's name has {} bytes, but at most {} are allowed", path_, name.size(),
            kMaxJsonText);
    const JsonObject object(value, fmt::format("{}: tensor {}", path_, quote(name)));
    if (foreign == ForeignDTypes::keep && !find_dtype(object.text("dtype"))) {
      foreign_.emplace(name, parse_foreign(object, size - data_begin_));
    } else {
      entries_.emplace(name, parse_entry(name, object, size - data_begin_));
    }
  }
}

void SafetensorsFile::read_metadata(const Json& metadata) {
  if (!metadata.is_object()) return;
  for (const auto& [key, value] : metadata.items()) {
    if (value.is_string()) metadata_.emplace(key, value.get<std::string>());
  }
}

void SafetensorsFile::require_filled() const {
  std::vector<std::tuple<size_t, size_t, const std::string*>> in_order;  // begin, end, name
  for (const auto& [name, entry] : entries_) in_order.emplace_back(entry.begin, entry.end, &name);
  for (const auto& [name, entry] : foreign_) in_order.emplace_back(entry.begin, entry.end, &name);
  std::sort(in_order.begin(), in_order.end());
  size_t end = 0;
  for (const auto& [begin, entry_end, name] : in_order) {
    require(begin == end,
            "{}: tensor {} starts at byte {} of the data, but the tensor before it ends at {}: {}",
            path_, quote(*name), begin, end, begin < end ? "they overlap" : "there is a gap");
    end = entry_end;
  }
  const size_t data_bytes = size() - data_begin_;
  require(end == data_bytes, "{}: its tensors end at byte {} of the data, but the file has {}",
          path_, end, data_bytes);
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  require(found != entries_.end(), "{} has no tensor {}", path_, quote(name));
  return found->second;
}

}  // namespace tessera
