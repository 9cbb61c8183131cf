#include "launch/data/indexed/dataset_metadata.h"

#include <filesystem>

#include "core/error.h"
#include "launch/support/files/small_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

/// The maximum size of a metadata file.
constexpr size_t kMaxMetadataBytes = size_t{1} << 20;

void check_count(const std::string& path, const char* what, int64_t said, int64_t found,
                 const std::string& prefix) {
  require(said == found,
          "{} says {} {}, but {}.idx has {}: it belongs to another dataset; remove it, or prepare "
          "the text again",
          path, said, what, prefix, found);
}

}  // namespace

std::string metadata_path(std::string_view prefix) { return std::string(prefix) + ".meta.json"; }

std::string tokenizer_path(std::string_view prefix) {
  return std::string(prefix) + ".tokenizer.json";
}

std::array<std::string, 4> dataset_files(const std::string& prefix) {
  return {prefix + ".bin", prefix + ".idx", metadata_path(prefix), tokenizer_path(prefix)};
}

std::string metadata_text(const DatasetMetadata& metadata) {
  Json json = {{"tessera_version", metadata.tessera_version},
               {"tokenizer", to_json(metadata.tokenizer)},
               {"documents", metadata.documents},
               {"sequences", metadata.sequences},
               {"tokens", metadata.tokens},
               {"bytes", metadata.bytes},
               {"unknown", metadata.unknown},
               {"invalid", metadata.invalid},
               {"end_of_document", metadata.end_of_document},
               {"empty_documents", metadata.empty_documents},
               {"duplicates_dropped", metadata.duplicates_dropped}};
  if (metadata.duplicates) json["duplicates"] = *metadata.duplicates;
  if (metadata.near_duplicates) json["near_duplicates"] = *metadata.near_duplicates;
  if (metadata.shuffle_seed) json["shuffle_seed"] = *metadata.shuffle_seed;
  return json.dump(2) + "\n";
}

DatasetMetadata parse_metadata(std::string_view text, const std::string& source) {
  require(text.size() <= kMaxMetadataBytes, "{} has {} bytes, but at most {} are allowed", source,
          text.size(), kMaxMetadataBytes);
  const Json json = parse_json(text, source);
  const JsonObject object(json, source);
  DatasetMetadata metadata;
  metadata.tessera_version = object.text("tessera_version");
  metadata.tokenizer =
      tokenizer_identity_from_json(object.object("tokenizer"), source + ": \"tokenizer\"");
  metadata.documents = object.count("documents");
  metadata.sequences = object.count("sequences");
  metadata.tokens = object.count("tokens");
  metadata.bytes = object.count("bytes");
  metadata.unknown = object.count("unknown");
  metadata.invalid = object.count("invalid");
  metadata.end_of_document = object.flag("end_of_document");
  if (object.has("empty_documents")) metadata.empty_documents = object.count("empty_documents");
  if (object.has("duplicates")) metadata.duplicates = object.count("duplicates");
  if (object.has("duplicates_dropped")) {
    metadata.duplicates_dropped = object.flag("duplicates_dropped");
  }
  if (object.has("near_duplicates")) metadata.near_duplicates = object.count("near_duplicates");
  if (object.has("shuffle_seed")) metadata.shuffle_seed = object.count("shuffle_seed");
  return metadata;
}

std::optional<DatasetMetadata> read_metadata(const IndexedDataset& dataset) {
  const std::string path = metadata_path(dataset.prefix());
  if (!std::filesystem::exists(path)) return std::nullopt;
  const DatasetMetadata metadata = parse_metadata(read_small_file(path, kMaxMetadataBytes), path);
  check_count(path, "documents", metadata.documents, dataset.num_documents(), dataset.prefix());
  check_count(path, "sequences", metadata.sequences, dataset.num_sequences(), dataset.prefix());
  check_count(path, "tokens", metadata.tokens, dataset.num_tokens(), dataset.prefix());
  return metadata;
}

std::unique_ptr<Tokenizer> tokenizer_of_dataset(const std::string& prefix) {
  const std::string path = tokenizer_path(prefix);
  if (!std::filesystem::exists(path)) {
    const IndexedDataset dataset(prefix);  // throws if that is what is missing
    fail(
        "{} does not exist, where `tessera prepare` keeps a dataset's tokenizer: set "
        "data.tokenizer to the tokenizer that made the tokens, or to none to use them as ids, or "
        "prepare the text again",
        path);
  }
  auto tokenizer = tokenizer_from_json(read_json_file(path), path);
  const std::string metadata = metadata_path(prefix);
  if (std::filesystem::exists(metadata)) {
    const TokenizerIdentity made =
        parse_metadata(read_small_file(metadata, kMaxMetadataBytes), metadata).tokenizer;
    const TokenizerIdentity kept = identity_of(*tokenizer);
    require(
        made == kept,
        "{} is {}, but {} says that {} made the tokens: it belongs to another dataset; copy the "
        "right file, or prepare the text again",
        path, to_string(kept), metadata, to_string(made));
  }
  return tokenizer;
}

}  // namespace tessera
