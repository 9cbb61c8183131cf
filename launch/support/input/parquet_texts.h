#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// Whether this program was built with Apache Arrow (TESSERA_PARQUET).
bool reads_parquet();

/// Reads the texts in a column of strings of a Parquet file, of which each row is a document.
/// Treats the file as untrusted, and verifies the checksums of pages that have one. Memory holds
/// one page of the column and its dictionary, whatever the size of a row group.
class ParquetTexts {
 public:
  /// Throws, naming file and column, if the path is no file, its index cannot be read, or it has no
  /// column of strings of this name at the top level. A row without a text, or whose text is not
  /// UTF-8, is malformed, as JSON would be: it is skipped and counted if `skip_malformed`, and
  /// otherwise an error. Requires reads_parquet().
  ParquetTexts(std::string path, std::string column, bool skip_malformed);
  ~ParquetTexts();

  /// Calls `on_text` with the texts of the next rows, in order, which are valid only during the
  /// call. Returns false, and calls nothing, at the end. Throws, naming file, column and row, at a
  /// malformed row, or if the column cannot be read.
  bool read(const std::function<void(std::string_view)>& on_text);

  /// The part of the file's bytes that is done, going by rows.
  int64_t position() const;
  /// The number of rows that were skipped, and the problem with the first of them.
  int64_t malformed_rows() const { return malformed_rows_; }
  const std::string& first_malformed() const { return first_malformed_; }

 private:
  struct File;

  void open_group();
  void end_group();
  void take(std::string_view text, const std::function<void(std::string_view)>& on_text);
  void refuse_row(std::string_view problem);
  std::string here() const;

  std::string path_;
  std::string column_;
  bool skip_malformed_;
  std::unique_ptr<File> file_;
  int64_t size_ = 0;  ///< of the file, in bytes
  int64_t row_ = 0;   ///< number of rows before the current one
  int64_t malformed_rows_ = 0;
  std::string first_malformed_;
};

}  // namespace tessera
