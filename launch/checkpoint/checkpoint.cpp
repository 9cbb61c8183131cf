#include "launch/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/format/stored_values.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/mapped_file.h"

namespace tessera {

namespace {

bool can_read_as(DType stored, DType wanted) {
  const bool converts = wanted == DType::f32 || wanted == DType::bf16;
  return stored == wanted || (converts && is_float(stored));
}

void read_rounded(DType stored, const std::byte* source, std::span<bfloat16> target) {
  std::array<float, 1024> part;
  for (size_t begin = 0; begin < target.size(); begin += part.size()) {
    const size_t count = std::min(part.size(), target.size() - begin);
    widen_to_float(stored, source + begin * size_of(stored), part.data(),
                   static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) target[begin + i] = bfloat16(part[i]);
  }
}

void copy_run(DType stored, const std::byte* bytes, int64_t from, Tensor& out, int64_t to,
              int64_t count) {
  const std::byte* source = bytes + static_cast<size_t>(from) * size_of(stored);
  if (stored == out.dtype()) {
    auto* target = static_cast<std::byte*>(out.raw()) + static_cast<size_t>(to) * size_of(stored);
    std::memcpy(target, source, static_cast<size_t>(count) * size_of(stored));
  } else if (out.dtype() == DType::bf16) {
    read_rounded(stored, source, {out.data<bfloat16>() + to, static_cast<size_t>(count)});
  } else {
    widen_to_float(stored, source, out.data<float>() + to, count);
  }
}

// Checked first, so that a truncated file is reported as truncated.
void require_size(const std::filesystem::path& path, int64_t stored) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  require(!error, "cannot read {}: {}", path.string(), error.message());
  require(size == static_cast<uintmax_t>(stored),
          "{} is damaged: it has {} bytes, but the manifest says {}", path.string(), size, stored);
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& step_folder) {
  return {step_folder, read_manifest(step_folder)};
}

bool Checkpoint::has_average() const {
  return std::ranges::any_of(manifest_.tensors,
                             [](const auto& tensor) { return tensor.first.ends_with(kEmaSuffix); });
}

void Checkpoint::use_average() {
  require(has_average(),
          "--ema uses the averaged weights, but the checkpoint {} has none: its run did not set "
          "optimizer.ema_decay, so leave --ema out",
          path_.string());
  for (auto& [name, tensor] : manifest_.tensors) {
    const auto average = manifest_.tensors.find(name + kEmaSuffix);
    if (average == manifest_.tensors.end()) continue;
    tensor.dtype = average->second.dtype;
    tensor.shape = average->second.shape;
    tensor.slices = average->second.slices;
  }
}

const StoredTensor& Checkpoint::tensor(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  require(found != manifest_.tensors.end(), "the checkpoint {} has no tensor {}", path_.string(),
          quote(name));
  return found->second;
}

std::string Checkpoint::attachment(const std::string& name) const {
  const StoredAttachment& stored = manifest_.attachments.at(name);
  const auto path = path_ / name;
  require_size(path, stored.size);
  const MappedFile file(path.string());
  const std::string found = checksum_of(file.bytes());
  require(found == stored.checksum,
          "{} is damaged: its bytes have the checksum {}, but the manifest says {}", path.string(),
          quote(found), quote(stored.checksum));
  return std::string(file.text());
}

const SafetensorsFile& Checkpoint::file(const std::string& name) {
  const auto known = files_.find(name);
  if (known != files_.end()) return known->second;
  const StoredFile& stored = manifest_.files.at(name);
  const auto path = path_ / name;
  require_size(path, stored.size);
  SafetensorsFile opened(path);
  require(checksum_of(opened.header()) == stored.header_checksum,
          "{} is damaged: its header does not have the checksum {} that the manifest says",
          path.string(), quote(stored.header_checksum));
  return files_.emplace(name, std::move(opened)).first->second;
}

std::span<const std::byte> Checkpoint::verified_bytes(const StoredTensor& tensor,
                                                      const StoredSlice& slice) {
  const SafetensorsFile& source = file(slice.file);
  const SafetensorsEntry& entry = source.entry(slice.key);
  require(entry.dtype == tensor.dtype && entry.shape == slice.box.shape,
          "{}: {} is {} {}, but the manifest says {} {}", source.path(), quote(slice.key),
          to_string(entry.dtype), to_string(entry.shape), to_string(tensor.dtype),
          to_string(slice.box.shape));
  const auto bytes = source.bytes(entry);
  const std::pair place(slice.file, slice.key);
  if (verified_.count(place) == 0) {
    const std::string found = checksum_of(bytes);
    require(found == slice.checksum,
            "{} is damaged: the bytes of {} have the checksum {}, but the manifest says {}",
            source.path(), quote(slice.key), found, quote(slice.checksum));
    verified_.insert(place);
  }
  return bytes;
}

void Checkpoint::read(const std::string& name, const Shard& shard, Tensor out) {
  const StoredTensor& stored = tensor(name);
  const bool has_piece =
      shard.replicated() ||
      (shard.dim >= 0 && shard.dim < stored.shape.rank() && 0 <= shard.range.begin &&
       shard.range.begin <= shard.range.end && shard.range.end <= stored.shape[shard.dim]);
  require(has_piece,
          "{} of the checkpoint {} has the shape {}: there is no range [{}, {}) in its dim {}",
          quote(name), path_.string(), to_string(stored.shape), shard.range.begin, shard.range.end,
          shard.dim);
  read_box(name, stored.shape, box_of(shard, stored.shape), out);
}

void Checkpoint::read(const std::string& name, const Shape& global_shape, const Shard& shard,
                      Tensor out) {
  require_global_shape(name, global_shape);
  read(name, shard, out);
}

void Checkpoint::require_global_shape(const std::string& name, const Shape& global_shape) const {
  const Shape& stored = tensor(name).shape;
  require(stored == global_shape, "{} has the shape {} in the checkpoint {}, but {} here",
          quote(name), to_string(stored), path_.string(), to_string(global_shape));
}

void Checkpoint::read_box(const std::string& name, const Shape& global_shape, const Box& wanted,
                          Tensor out) {
  require_global_shape(name, global_shape);
  const StoredTensor& stored = tensor(name);
  const std::string where = fmt::format("{} of the checkpoint {}", quote(name), path_.string());
  require(is_within(wanted, stored.shape), "{} has the shape {}: there is no box {} in it", where,
          to_string(stored.shape), to_string(wanted));
  require(out.defined() && out.shape() == wanted.shape && !out.device().is_meta(),
          "{} has the shape {}, its piece has {} {}: it cannot be read into a tensor {}", where,
          to_string(stored.shape), to_string(wanted), to_string(wanted.shape), describe(out));
  require(can_read_as(stored.dtype, out.dtype()),
          "{} is stored as {}: it can be read as that, and floats as fp32 and bf16, but not as {}",
          where, to_string(stored.dtype), to_string(out.dtype()));
  if (out.device().is_cuda()) {
    const OwnedTensor on_host(out.shape(), out.dtype());
    read_box(name, global_shape, wanted, on_host.tensor);
    return copy(on_host.tensor, out);
  }
  for (const StoredSlice& slice : stored.slices) {
    const auto overlap = intersect(slice.box, wanted);
    if (!overlap) continue;
    const auto bytes = verified_bytes(stored, slice);
    for_each_run(slice.box, wanted, *overlap, [&](int64_t from, int64_t to, int64_t count) {
      copy_run(stored.dtype, bytes.data(), from, out, to, count);
    });
  }
}

}  // namespace tessera
