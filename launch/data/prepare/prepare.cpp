#include "launch/data/prepare/prepare.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/version.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/data/prepare/id_lines.h"
#include "launch/data/prepare/ordered_work.h"
#include "launch/data/prepare/part_reader.h"
#include "launch/data/prepare/token_part_writer.h"
#include "launch/data/sampling/sample_order.h"
#include "launch/support/files/file_pieces.h"
#include "launch/support/files/folders.h"
#include "launch/support/input/json_lines.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Each line of JSON is a document, and so is each row of Parquet.
void check_documents(const PrepareOptions& options, const std::vector<InputFile>& inputs) {
  if (options.documents != Documents::paragraph) return;
  for (const InputFile& input : inputs) {
    require(input.format == InputFormat::text,
            "prepare: documents cannot be paragraphs in {}: each {} is a document", input.path,
            input.format == InputFormat::parquet ? "row of Parquet" : "line of JSON");
  }
}

/// Inputs without a tokenizer are lines of ids.
void set_format_of_ids(const PrepareOptions& options, std::vector<InputFile>& inputs) {
  require(options.documents.value_or(Documents::line) == Documents::line &&
              options.sentences == Sentences::none,
          "prepare: with --tokenizer none each line of ids is a document: leave --documents and "
          "--sentences out");
  require(
      !options.near_duplicates,
      "prepare: --near-duplicates compares words, and with --tokenizer none there are only ids: "
      "leave it out; --drop-duplicates drops documents with the same ids");
  for (InputFile& input : inputs) {
    require(input.format == InputFormat::text,
            "prepare: {} is {}, but with --tokenizer none inputs are lines of ids: convert it, or "
            "add --format text if it is not",
            input.path, to_string(input.format));
    input.format = InputFormat::ids;
  }
}

std::optional<int32_t> end_of_document(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (!options.append_end) return std::nullopt;
  const std::optional<int32_t> end = tokenizer.end_of_document();
  require(
      end.has_value(),
      "prepare: --append-eod is given, but tokenizer {} has no end-of-document token: leave it "
      "out{}",
      options.tokenizer,
      is_none(tokenizer) ? ", and write the id that ends a document at the end of its line" : "");
  return end;
}

/// Returns nothing if the size of any input is unknown.
std::optional<int64_t> total_bytes(const std::vector<InputFile>& inputs) {
  int64_t total = 0;
  for (const InputFile& input : inputs) {
    std::error_code error;
    if (input.path == kStdin) return std::nullopt;  // even if a file named "-" exists
    if (!fs::is_regular_file(input.path, error)) return std::nullopt;
    total += static_cast<int64_t>(fs::file_size(input.path, error));
    if (error) return std::nullopt;
  }
  return total;
}

/// The order of the documents in the dataset; empty for that of the input.
std::function<int64_t(int64_t, int64_t)> order_of(const PrepareOptions& options) {
  if (!options.shuffle_seed) return {};
  return [seed = static_cast<uint64_t>(*options.shuffle_seed)](int64_t documents, int64_t place) {
    return permuted(seed, /*epoch=*/0, documents, place);
  };
}

/// Accumulates the counts of parts and reports progress.
class Progress {
 public:
  Progress(const PrepareOptions& options, std::optional<int64_t> total)
      : options_(options), total_(total) {}

  void add(const TokenPart& part, const IndexedDatasetWriter& writer) {
    report_.bytes_read += part.bytes;
    if (report_.malformed_lines == 0) report_.first_malformed = part.first_malformed;
    report_.malformed_lines += part.malformed_lines;
    if (options_.on_progress) {
      options_.on_progress(
          {part.position, total_, writer.num_documents(), writer.num_tokens(), seconds()});
    }
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  PrepareReport report(const IndexedDatasetWriter& writer, const TokenPartWriter& documents) const {
    PrepareReport report = report_;
    report.documents = writer.num_documents();
    report.sequences = writer.num_sequences();
    report.tokens = writer.num_tokens();
    report.token_type = writer.token_type();
    report.bytes = documents.counts().bytes;
    report.unknown = documents.counts().unknown;
    report.invalid = documents.counts().invalid;
    report.empty_documents = documents.empty_documents();
    report.duplicates = documents.duplicates();
    report.near_duplicates = documents.near_duplicates();
    return report;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const PrepareOptions& options_;
  const std::optional<int64_t> total_;
  const Clock::time_point start_ = Clock::now();
  PrepareReport report_;
};

TokenPart encode(const Tokenizer& tokenizer, const InputPart& part, const JsonLinesOptions& json,
                 const MinHash* near) {
  if (const auto* text = std::get_if<TextPart>(&part.content)) {
    return encode_part(tokenizer, *text, near);
  }
  const auto& lines = std::get<TextLines>(part.content);
  if (is_none(tokenizer)) return read_id_lines(lines, tokenizer.vocab_size());
  JsonDocuments documents = read_json_lines(lines, json);
  TokenPart tokens = encode_part(tokenizer, documents.text, near);
  tokens.malformed_lines = documents.malformed_lines;
  tokens.first_malformed = std::move(documents.first_malformed);
  return tokens;
}

/// They come before the lines of the part.
void count_skipped_rows(const InputPart& part, TokenPart& tokens) {
  if (part.malformed_rows == 0) return;
  tokens.malformed_lines += part.malformed_rows;
  tokens.first_malformed = part.first_malformed;
}

DatasetMetadata metadata_of(const PrepareReport& report, const Tokenizer& tokenizer,
                            const PrepareOptions& options) {
  DatasetMetadata metadata;
  metadata.tessera_version = kVersion;
  metadata.tokenizer = identity_of(tokenizer);
  metadata.documents = report.documents;
  metadata.sequences = report.sequences;
  metadata.tokens = report.tokens;
  metadata.bytes = is_none(tokenizer) ? 0 : report.bytes;
  metadata.unknown = report.unknown;
  metadata.invalid = report.invalid;
  metadata.end_of_document = options.append_end;
  metadata.empty_documents = report.empty_documents;
  metadata.duplicates = report.duplicates;
  if (options.near_duplicates) metadata.near_duplicates = report.near_duplicates;
  metadata.duplicates_dropped = options.drop_duplicates;
  metadata.shuffle_seed = options.shuffle_seed;
  return metadata;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const PrepareOptions& options) {
  const bool none = options.tokenizer == kNoTokenizer;
  require(
      none || !options.vocab_size,
      "prepare: --vocab-size is {}, but tokenizer {} has its own number of tokens: leave it out",
      options.vocab_size.value_or(0), options.tokenizer);
  if (!none) return make_tokenizer(options.tokenizer);
  require(options.vocab_size.has_value(),
          "prepare: --tokenizer none needs --vocab-size, the number of ids, which ids are checked "
          "against: choose the largest id + 1 or more");
  return std::make_unique<IdTokenizer>(*options.vocab_size);
}

PrepareReport prepare(const PrepareOptions& options) {
  const auto tokenizer = open_tokenizer(options);
  const std::optional<int32_t> end = end_of_document(options, *tokenizer);
  std::vector<InputFile> inputs = find_input_files(options.input, "prepare");
  if (is_none(*tokenizer)) set_format_of_ids(options, inputs);
  std::optional<MinHash> near;
  if (options.near_duplicates) near.emplace(*options.near_duplicates);
  check_documents(options, inputs);
  create_folder_of(options.output);

  IndexedDatasetWriter writer(options.output, {.type = token_type_for(tokenizer->vocab_size()),
                                               .overwrite = options.overwrite,
                                               .order = order_of(options)});
  TokenPartWriter documents(
      writer,
      {.end = end, .near = near ? &*near : nullptr, .drop_duplicates = options.drop_duplicates});
  Progress progress(options, total_bytes(inputs));
  const JsonLinesOptions json = {.field = options.input.field.value_or("text"),
                                 .sentences = options.sentences,
                                 .skip_malformed = options.input.skip_malformed};
  std::optional<PartReader> reader;
  OrderedWork<InputPart, TokenPart> work({.take = [&] { return reader->next(); },
                                          .size = [](const InputPart& part) { return part.size(); },
                                          .work =
                                              [&](const InputPart& part) {
                                                TokenPart tokens = encode(*tokenizer, part, json,
                                                                          near ? &*near : nullptr);
                                                tokens.position = part.position;
                                                count_skipped_rows(part, tokens);
                                                return tokens;
                                              },
                                          .use =
                                              [&](const TokenPart& part) {
                                                documents.add(part);
                                                progress.add(part, writer);
                                              }},
                                         2 * kPieceBytes * static_cast<size_t>(options.threads));
  reader.emplace(InputText(inputs, options.input), options.documents.value_or(Documents::file),
                 options.sentences, *tokenizer, work.stop_token());
  work.run(options.threads);

  PrepareReport report = progress.report(writer, documents);
  require(
      report.documents > 0, "prepare: none of the {} inputs has any {}: nothing was written{}{}",
      inputs.size(), is_none(*tokenizer) ? "ids" : "text",
      report.malformed_lines > 0 ? "; the first that was skipped: " : "", report.first_malformed);
  writer.finish(metadata_text(metadata_of(report, *tokenizer, options)),
                to_text(tokenizer->to_json()) + "\n");
  report.seconds = progress.seconds();
  return report;
}

}  // namespace tessera
