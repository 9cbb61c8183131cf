#include "launch/data/prepare.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "launch/data/indexed_dataset_writer.h"
#include "launch/files/file_pieces.h"
#include "launch/files/folders.h"
#include "launch/tokenizer/tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A file that is both read and written would be lost.
void check_apart(const PrepareOptions& options) {
  for (const char* ending : {".bin", ".idx", ".bin.tmp", ".idx.tmp"}) {
    const std::string written = options.output + ending;
    for (const std::string& path : options.inputs) {
      std::error_code ignored;
      require(!fs::equivalent(path, written, ignored),
              "prepare: input {} is also what output {} would write: choose another output", path,
              options.output);
    }
  }
}

/// Tokenizes the text of sequences and appends them to a dataset.
class SequenceWriter final : public TextSink {
 public:
  SequenceWriter(const Tokenizer& tokenizer, IndexedDatasetWriter& writer, PrepareReport& report)
      : tokenizer_(tokenizer),
        unknown_(tokenizer.special().unknown),
        writer_(writer),
        report_(report) {}

  void add(std::string_view text) override {
    text_ += text;
    if (text_.size() < kPieceBytes) return;
    size_t cut = tokenizer_.last_cut(text_);
    if (cut == 0) cut = tokenizer_.forced_cut(text_);
    append({text_.data(), cut});
    text_.erase(0, cut);
  }

  void end_sequence() override {
    append(text_);
    text_.clear();
    sequence_ended_ = true;
  }

  void end_document() override {
    end_sequence();
    sequence_ended_ = false;
    if (document_empty_) {
      ++report_.empty_documents;
      return;
    }
    if (const auto end = tokenizer_.end_of_document()) writer_.append({&*end, 1});
    writer_.end_document();
    document_empty_ = true;
  }

 private:
  void append(std::string_view text) {
    const std::vector<int32_t> tokens = tokenizer_.encode(text);
    report_.invalid += tokenizer_.count_invalid(text);
    if (unknown_) report_.unknown += std::count(tokens.begin(), tokens.end(), *unknown_);
    if (tokens.empty()) return;
    // Not before: the end of a document belongs to its last sequence.
    if (sequence_ended_ && !document_empty_) writer_.end_sequence();
    if (sequence_ended_ || document_empty_) ++report_.sequences;
    sequence_ended_ = false;
    document_empty_ = false;
    writer_.append(tokens);
  }

  const Tokenizer& tokenizer_;
  const std::optional<int32_t> unknown_;
  IndexedDatasetWriter& writer_;
  PrepareReport& report_;
  std::string text_;  ///< of the sequence, not tokenized yet; bounded by two pieces
  bool sequence_ended_ = false;
  bool document_empty_ = true;
};

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = make_tokenizer(options.tokenizer);
  check_readable(options.inputs, "prepare");
  check_apart(options);
  create_folder_of(options.output);

  PrepareReport report;
  report.token_type = token_type_for(tokenizer->vocab_size());
  IndexedDatasetWriter writer(options.output,
                              {.type = report.token_type, .overwrite = options.overwrite});
  SequenceWriter sequences(*tokenizer, writer, report);
  for (const std::string& path : options.inputs) {
    DocumentSplitter splitter(options.documents, options.sentences, sequences);
    for_each_piece(path, [&](std::string_view piece) {
      splitter.add(piece);
      report.bytes += static_cast<int64_t>(piece.size());
    });
    splitter.end_file();
  }
  require(writer.num_documents() > 0,
          "prepare: there is no text in any of the {} inputs: nothing was written",
          options.inputs.size());
  writer.finish();
  report.documents = writer.num_documents();
  report.tokens = writer.num_tokens();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace tessera
