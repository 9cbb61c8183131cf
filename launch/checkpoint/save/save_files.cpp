#include "launch/checkpoint/save/save_files.h"

#include <algorithm>

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

using LocalByName = std::multimap<std::string, const LocalTensor*>;

/// The rank's piece that matches the slice. The plan only assigns slices that the rank has.
const LocalTensor& piece_of(const LocalByName& local, const std::string& name, const Box& box) {
  const auto [begin, end] = local.equal_range(name);
  const auto found =
      std::find_if(begin, end, [&](const auto& known) { return known.second->box == box; });
  require(found != end, "there is no piece {} of {} to write", to_string(box), name);
  return *found->second;
}

Json write_file(const std::filesystem::path& path, SavePlan& plan, const PlannedFile& file,
                const LocalByName& local, HostStage& stage, const SaveObserver& observer) {
  std::vector<SafetensorsEntry> entries;
  for (const PlannedSlice& planned : file.slices) {
    const StoredSlice& slice = plan.slice(planned);
    entries.push_back({slice.key, plan.tensors.at(planned.tensor).dtype, slice.box.shape});
  }
  SafetensorsWriter writer(path, std::move(entries));
  Json checksums = Json::array();
  for (const PlannedSlice& planned : file.slices) {
    const LocalTensor& tensor = piece_of(local, planned.tensor, plan.slice(planned).box);
    const std::string checksum =
        writer.append(tensor.make ? tensor.make() : stage.in_host(tensor.data));
    require(tensor.checksum.empty() || tensor.checksum == checksum,
            "the copy of {} in memory has changed since it was made: the memory of host {} may be "
            "faulty",
            tensor.name, host_name());
    checksums.push_back(checksum);
    if (observer) observer("during_data");
  }
  writer.finish();
  return {{"size", writer.size()},
          {"header_checksum", writer.header_checksum()},
          {"checksums", checksums}};
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

}  // namespace

std::string write_files(const std::filesystem::path& folder, SavePlan& plan, int rank,
                        const std::vector<LocalTensor>& tensors, const SaveObserver& observer) {
  LocalByName local;
  for (const LocalTensor& tensor : tensors) local.emplace(tensor.name, &tensor);
  HostStage stage;
  Json written = Json::array();
  for (const PlannedFile& file : plan.files_of_rank[static_cast<size_t>(rank)]) {
    written.push_back(write_file(folder / file.name, plan, file, local, stage, observer));
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

void fill_manifest(const std::filesystem::path& folder, SavePlan plan,
                   const std::vector<std::string>& written_of_rank, Manifest& manifest) {
  for (size_t rank = 0; rank < written_of_rank.size(); ++rank) {
    const std::string source = fmt::format("the list of the files of rank {}", rank);
    const Json written = parse_json(written_of_rank[rank], source);
    const auto& files = plan.files_of_rank[rank];
    for (size_t i = 0; i < files.size(); ++i) {
      const JsonObject file(written.at(i), source);
      const StoredFile stored{file.count("size"), file.text("header_checksum")};
      require_visible(folder / files[i].name, stored.size, rank);
      manifest.files.emplace(files[i].name, stored);
      const Json& checksums = file.list("checksums");
      for (size_t j = 0; j < files[i].slices.size(); ++j) {
        plan.slice(files[i].slices[j]).checksum = checksums.at(j).get<std::string>();
      }
    }
  }
  manifest.tensors = std::move(plan.tensors);
}

}  // namespace tessera
