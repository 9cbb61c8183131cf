#include "launch/data/prepare.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "launch/data/indexed_dataset_writer.h"
#include "launch/data/tokenizer.h"
#include "launch/files/file_descriptor.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Why a file can not be read, or nothing.
std::string find_problem(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return system_message(errno);
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? "is a directory" : "";
}

void check_inputs(const std::vector<std::string>& inputs) {
  constexpr size_t kShown = 20;
  require(!inputs.empty(), "prepare: there is no input: name at least one text file");
  std::vector<std::string> problems;
  size_t count = 0;
  for (const std::string& path : inputs) {
    const std::string problem = find_problem(path);
    if (problem.empty()) continue;
    if (++count <= kShown) problems.push_back(fmt::format("{}: {}", path, problem));
  }
  if (count > kShown) problems.push_back(fmt::format("and {} more", count - kShown));
  require(count == 0, "prepare: {} of {} inputs can not be read:\n  {}", count, inputs.size(),
          fmt::join(problems, "\n  "));
}

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

void create_folder_of(const std::string& output) {
  const fs::path folder = fs::path(output).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "prepare: folder {} of the output can not be created: {}", folder.string(),
          error.message());
}

/// Appends a file's text as one document; returns its bytes.
int64_t append_document(const std::string& path, const Tokenizer& tokenizer,
                        std::vector<char>& piece, IndexedDatasetWriter& writer) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail("{}: can not be opened: {}", path, system_message(errno));
  int64_t bytes = 0;
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("{}: can not be read: {}", path, system_message(errno));
    if (count == 0) break;
    writer.append(tokenizer.encode({piece.data(), static_cast<size_t>(count)}));
    bytes += count;
  }
  const int32_t end = tokenizer.end_of_document();
  writer.append({&end, 1});
  writer.end_document();
  return bytes;
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = make_tokenizer(options.tokenizer);
  check_inputs(options.inputs);
  check_apart(options);
  create_folder_of(options.output);

  PrepareReport report;
  report.token_type = token_type_for(tokenizer->vocab_size());
  IndexedDatasetWriter writer(options.output,
                              {.type = report.token_type, .overwrite = options.overwrite});
  std::vector<char> piece(kPieceBytes);
  for (const std::string& path : options.inputs) {
    report.bytes += append_document(path, *tokenizer, piece, writer);
  }
  writer.finish();
  report.documents = writer.num_documents();
  report.tokens = writer.num_tokens();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace tessera
