#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/config/column_names.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {

/// The columns of a format of files.
struct RowFormat {
  std::vector<std::string_view> required;
  std::vector<std::string_view> optional = {};  ///< each in all rows or in none
  /// Column -> advice for the message, if that column is there and a required one is missing.
  std::vector<std::pair<std::string_view, std::string_view>> advice = {};
  std::vector<std::string_view> in_some = {};  ///< columns, each in any rows
};

/// How the files of a run are read.
struct RowOptions {
  ColumnNames columns = {};                   ///< data.columns
  std::vector<std::string>* notes = nullptr;  ///< collects remarks for the user, if not null
};

/// Whether the extension is that of a file with columns: .jsonl, .json, .csv or .tsv.
bool has_columns(std::string_view path);

/// Reads the rows of a UTF-8 file with named columns in order. The extension selects the format:
///
///     .jsonl, .json   objects, one per line or, in a .json file, in one list; columns are fields
///     .csv            RFC 4180: columns separated by commas; quotation marks around a text with
///                     commas, line ends or quotation marks, which are doubled in it
///     .tsv            columns separated by tabs, without quoting: quotation marks are text, and a
///                     text has neither tabs nor line ends
///
/// The first row of .csv and .tsv names the columns. Other columns than those of the format are not
/// read, which a note says. Rows of more than 16 MiB are errors. Throws, naming file and line.
class RowReader {
 public:
  /// Throws if a name in options.columns is not of the format.
  RowReader(const std::string& path, RowFormat format, const RowOptions& options = {});

  /// Advances; returns false after the last row. Texts of the earlier row become invalid.
  bool next();

  /// The number of the row's first line, from 1.
  int64_t number() const { return number_; }
  /// "data/texts.csv:7", for messages.
  const std::string& where() const { return where_; }

  /// Whether the row has a column of the format. Required ones it has.
  bool has(std::string_view name) const;
  /// The text in a column. Throws if it is something else.
  std::string_view text(std::string_view name) const;
  /// The value of a field; null in .csv and .tsv.
  const Json* json(std::string_view name) const;
  /// The row in JSON, with the names of the file; null in .csv and .tsv.
  const Json& object() const { return object_; }
  /// The row's text in JSON, within the file.
  std::string_view json_text() const { return json_text_; }
  /// All names in the file that the row, or the first line of .csv and .tsv, has.
  std::vector<std::string_view> names() const;

 private:
  using Cells = std::vector<std::string>;

  /// The column's name in the file.
  std::string_view name_in_file(std::string_view name) const;
  std::optional<size_t> column_of(std::string_view name) const;
  bool read_cells(Cells& cells);
  bool read_csv(Cells& cells);
  void read_tsv(Cells& cells) const;
  bool read_object();
  bool read_list_item();
  void read_header();
  void check_columns();
  void add_note();

  std::string path_;
  RowFormat format_;
  std::vector<std::string_view> known_;  ///< all columns of the format
  RowOptions options_;
  MappedFile file_;
  LineReader lines_;
  std::string_view rest_;  ///< of a .csv file, or of a list in a .json file
  int64_t line_ = 1;       ///< of `rest_`
  bool is_json_, in_list_ = false;
  int64_t number_ = 0, rows_ = 0;
  std::string where_;
  Json object_;
  std::string_view json_text_;
  Cells header_, cells_;
  std::set<std::string_view> present_;           ///< optional columns of the first row
  std::set<std::string, std::less<>> not_read_;  ///< names in the file
};

/// Calls `visit` with each line of a .txt file, and its number. Throws if columns have names.
void for_each_txt_line(const std::string& path, const RowOptions& options,
                       const std::function<void(std::string_view text, int64_t number)>& visit);

/// The columns of the first row, by the format's names, with their values in JSON; null if the file
/// has no columns or cannot be read, which its reader reports.
Json first_row(const std::string& path, const ColumnNames& columns);

}  // namespace tessera
