#include "launch/checkpoint/save/save_files.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/output_file.h"
#include "parallel/host/host_name.h"

namespace tessera {

namespace {

/// Copies pieces from a GPU to host memory, one at a time.
class HostStage {
 public:
  /// Returns `tensor` itself if it is in host memory; otherwise a copy that is valid until the next
  /// call.
  Tensor in_host(const Tensor& tensor) {
    if (!tensor.device().is_cuda()) return tensor;
    if (tensor.bytes() > memory_.bytes()) {
      memory_ = Buffer();
      memory_ = Buffer(tensor.bytes(), kCpu, MemoryKind::pinned);
    }
    const Tensor in_host = memory_.tensor(tensor.shape(), tensor.dtype());
    copy(tensor, in_host);
    return in_host;
  }

 private:
  Buffer memory_;
};

/// A rank's slices of one file, in order. Larger dtypes come first, so that every slice is aligned
/// to its dtype.
std::vector<const LocalTensor*> slices_of(const std::vector<LocalTensor>& tensors,
                                          const char* kind) {
  std::vector<const LocalTensor*> slices;
  for (const LocalTensor& tensor : tensors) {
    if (tensor.kind == kind && tensor.data.numel() > 0) slices.push_back(&tensor);
  }
  std::ranges::stable_sort(slices, {}, [](const LocalTensor* slice) {
    return std::pair(-static_cast<int64_t>(size_of(slice->data.dtype())),
                     std::string_view(slice->name));
  });
  return slices;
}

/// The name in its file of one of `count` slices of a tensor.
std::string key_of(const std::string& tensor, const Box& box, size_t count) {
  return count > 1 ? tensor + to_string(box) : tensor;
}

/// The slices of one tensor, beside each other.
using TensorSlices = std::span<const LocalTensor* const>;

std::vector<TensorSlices> by_tensor(TensorSlices slices) {
  std::vector<TensorSlices> tensors;
  while (!slices.empty()) {
    const auto other = std::ranges::find_if(
        slices, [&](const LocalTensor* slice) { return slice->name != slices.front()->name; });
    const auto count = static_cast<size_t>(other - slices.begin());
    tensors.push_back(slices.first(count));
    slices = slices.subspan(count);
  }
  return tensors;
}

std::string write_slice(SafetensorsWriter& writer, const LocalTensor& slice, HostStage& stage) {
  std::string checksum = writer.append(slice.make ? slice.make() : stage.in_host(slice.data));
  require(slice.checksum.empty() || slice.checksum == checksum,
          "the copy of {} in memory has changed since it was made: the memory of host {} may be "
          "faulty",
          slice.name, host_name());
  return checksum;
}

Json write_file(const std::filesystem::path& path, TensorSlices slices, HostStage& stage,
                const SaveObserver& observer) {
  const std::vector<TensorSlices> tensors = by_tensor(slices);
  std::vector<SafetensorsEntry> entries;
  for (const TensorSlices& tensor : tensors) {
    for (const LocalTensor* slice : tensor) {
      entries.push_back(
          {key_of(slice->name, slice->box, tensor.size()), slice->data.dtype(), slice->box.shape});
    }
  }
  SafetensorsWriter writer(path, std::move(entries));
  Json written = Json::array();
  for (const TensorSlices& tensor : tensors) {
    Json boxes = Json::array();
    for (const LocalTensor* slice : tensor) {
      boxes.push_back({to_list(slice->box.offset), to_list(slice->box.shape),
                       write_slice(writer, *slice, stage)});
      if (observer) observer("during_data");
    }
    const LocalTensor& first = *tensor.front();
    written.push_back({{"name", first.name},
                       {"dtype", safetensors_name(first.data.dtype())},
                       {"shape", to_list(first.global_shape)},
                       {"slices", std::move(boxes)}});
  }
  writer.finish();
  return {{"kind", slices.front()->kind},
          {"size", writer.size()},
          {"header_checksum", writer.header_checksum()},
          {"tensors", std::move(written)}};
}

std::string file_name(const std::string& kind, size_t rank) {
  return fmt::format("{}_{:05}.safetensors", kind, rank);
}

void require_visible(const std::filesystem::path& path, int64_t size, size_t rank) {
  std::error_code error;
  const auto seen = std::filesystem::file_size(path, error);
  require(!error,
          "rank {} wrote {}, but rank 0 cannot see it ({}): is the folder on a file system that "
          "all machines share?",
          rank, path.string(), error.message());
  require(
      seen == static_cast<uintmax_t>(size),
      "rank {} wrote {} bytes to {}, but rank 0 sees {}: is the folder on a file system that all "
      "machines share?",
      rank, size, path.string(), seen);
}

Shape to_shape(const Json& list) {
  Shape shape;
  for (const Json& extent : list) shape.push_back(extent.get<int64_t>());
  return shape;
}

/// Collects the slices that the ranks wrote.
class WrittenTensors {
 public:
  void add(const JsonObject& written, const std::string& kind, const std::string& file,
           size_t rank) {
    const std::string name = written.text("name");
    const StoredTensor tensor{
        kind, dtype_of_safetensors(written.text("dtype"), name), written.shape("shape"), {}};
    const auto [known, added] = tensors_.emplace(name, tensor);
    if (added) first_rank_[name] = rank;
    require_same(name, known->second, tensor, rank);
    const Json& slices = written.list("slices");
    for (const Json& slice : slices) {
      const Box box{to_shape(slice.at(0)), to_shape(slice.at(1))};
      known->second.slices.push_back(
          {file, key_of(name, box, slices.size()), box, slice.at(2).get<std::string>()});
    }
  }

  /// Throws unless the slices tile their tensors.
  std::map<std::string, StoredTensor> complete() {
    for (const auto& [name, tensor] : tensors_) {
      std::vector<Box> boxes;
      for (const StoredSlice& slice : tensor.slices) boxes.push_back(slice.box);
      require_tiling(boxes, tensor.shape, name);
    }
    return std::move(tensors_);
  }

 private:
  void require_same(const std::string& name, const StoredTensor& known, const StoredTensor& tensor,
                    size_t rank) const {
    require(known.kind == tensor.kind && known.dtype == tensor.dtype && known.shape == tensor.shape,
            "{} is {} {} of kind {} on rank {}, but {} {} of kind {} on rank {}", name,
            to_string(known.dtype), to_string(known.shape), known.kind, first_rank_.at(name),
            to_string(tensor.dtype), to_string(tensor.shape), tensor.kind, rank);
  }

  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, size_t> first_rank_;
};

}  // namespace

std::string write_files(const std::filesystem::path& folder, int rank,
                        const std::vector<LocalTensor>& tensors, const SaveObserver& observer) {
  HostStage stage;
  Json written = Json::array();
  for (const char* kind : {kModelKind, kOptimizerKind}) {
    const std::vector<const LocalTensor*> slices = slices_of(tensors, kind);
    if (slices.empty()) continue;
    const std::string name = file_name(kind, static_cast<size_t>(rank));
    written.push_back(write_file(folder / name, slices, stage, observer));
  }
  return to_text(written);
}

void write_attachments(const std::filesystem::path& folder,
                       const std::map<std::string, std::string>& attachments, Manifest& manifest) {
  for (const auto& [name, bytes] : attachments) {
    OutputFile file(folder / name);
    file.write(bytes);
    file.sync_and_close();
    const std::string checksum = checksum_of(std::as_bytes(std::span(bytes.data(), bytes.size())));
    manifest.attachments.emplace(name,
                                 StoredAttachment{static_cast<int64_t>(bytes.size()), checksum});
  }
}

void fill_manifest(const std::filesystem::path& folder, std::vector<std::string> written_of_rank,
                   Manifest& manifest) {
  WrittenTensors tensors;
  for (size_t rank = 0; rank < written_of_rank.size(); ++rank) {
    const std::string source = fmt::format("the list of the files of rank {}", rank);
    for (const Json& item : parse_json(std::exchange(written_of_rank[rank], {}), source)) {
      const JsonObject file(item, source);
      const std::string kind = file.text("kind"), name = file_name(kind, rank);
      const StoredFile stored{file.count("size"), file.text("header_checksum")};
      require_visible(folder / name, stored.size, rank);
      manifest.files.emplace(name, stored);
      for (const Json& tensor : file.list("tensors")) {
        tensors.add(JsonObject(tensor, source), kind, name, rank);
      }
    }
  }
  manifest.tensors = tensors.complete();
}

}  // namespace tessera
