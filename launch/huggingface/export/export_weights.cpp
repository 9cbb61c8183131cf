#include "launch/huggingface/export/export_weights.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/version.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/huggingface/export/earlier_export.h"
#include "launch/huggingface/export/tensor_parts.h"
#include "launch/huggingface/tensor_names.h"
#include "launch/support/files/output_file.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// One Hugging Face tensor.
struct Piece {
  const TensorName* name;
  size_t part;  ///< index into name->theirs

  const TheirTensor& theirs() const { return name->theirs[part]; }
};

using FileOfPieces = std::vector<Piece>;

/// Assigns tensors to files, in order.
std::vector<FileOfPieces> plan_shards(const std::vector<TensorName>& names, DType precision,
                                      int64_t max_shard_bytes) {
  std::vector<FileOfPieces> shards;
  int64_t room = -1;
  for (const TensorName& name : names) {
    for (size_t part = 0; part < name.theirs.size(); ++part) {
      const auto bytes = name.theirs[part].shape.numel() * static_cast<int64_t>(size_of(precision));
      if (shards.empty() || bytes > room) {
        shards.emplace_back();
        room = max_shard_bytes;
      }
      shards.back().push_back({&name, part});
      room -= bytes;
    }
  }
  return shards;
}

void write_shard(const fs::path& path, const FileOfPieces& shard, DType precision,
                 const TensorPartReader& reader) {
  std::vector<SafetensorsEntry> entries;
  for (const Piece& piece : shard) {
    entries.push_back({piece.theirs().name, precision, piece.theirs().shape});
  }
  SafetensorsWriter writer(path, std::move(entries), {{"format", "pt"}, {kExportMark, kVersion}});
  for (const Piece& piece : shard) {
    const OwnedTensor values = reader.read(*piece.name, piece.part);
    if (precision == DType::f32) {
      writer.append(values.tensor);
    } else {
      const OwnedTensor narrowed(values.tensor.shape(), precision);
      copy(values.tensor, narrowed.tensor);
      writer.append(narrowed.tensor);
    }
  }
  writer.finish();
}

std::string index_text(const std::vector<FileOfPieces>& shards,
                       const std::vector<std::string>& files, DType precision) {
  Json weight_map = Json::object();
  int64_t elements = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const Piece& piece : shards[i]) {
      weight_map[piece.theirs().name] = files[i];
      elements += piece.theirs().shape.numel();
    }
  }
  const Json index = {{"metadata",
                       {{"total_parameters", elements},
                        {"total_size", elements * static_cast<int64_t>(size_of(precision))}}},
                      {"weight_map", weight_map}};
  return index.dump(2) + "\n";
}

}  // namespace

std::vector<std::string> export_weights(Checkpoint& checkpoint, const ModelConfig& model,
                                        int64_t padding_token, DType precision,
                                        int64_t max_shard_bytes, const fs::path& folder) {
  require(max_shard_bytes > 0, "a file of weights cannot have at most {} bytes", max_shard_bytes);
  const std::vector<TensorName> names = tensor_names(model, padding_token);
  const std::vector<FileOfPieces> shards = plan_shards(names, precision, max_shard_bytes);
  const TensorPartReader reader(checkpoint, model);
  std::vector<std::string> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    files.push_back(shards.size() == 1
                        ? "model.safetensors"
                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
    write_shard(folder / files.back(), shards[i], precision, reader);
  }
  if (shards.size() > 1) {
    const std::string index = index_text(shards, files, precision);
    files.emplace_back("model.safetensors.index.json");
    OutputFile file(folder / files.back());
    file.write(index);
    file.sync_and_close();
  }
  return files;
}

}  // namespace tessera
