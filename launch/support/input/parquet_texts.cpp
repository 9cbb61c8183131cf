#include "launch/support/input/parquet_texts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "launch/support/text/json.h"
#include "launch/support/text/utf8.h"

// The only file that includes Arrow's headers.
#ifdef TESSERA_HAS_PARQUET
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#endif

namespace tessera {

#ifdef TESSERA_HAS_PARQUET

namespace {

namespace fs = std::filesystem;

/// Most rows that are read at once. They are of one page.
constexpr size_t kBatchRows = 1024;
/// Most names of columns in a message.
constexpr int kShownNames = 8;

/// Calls `body`. Errors of Arrow become Errors that start with `where()`.
template <typename Body, typename Where>
auto explained(Body&& body, Where&& where) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: {}", where(), error.what());
  }
}

std::string names_of(const parquet::schema::GroupNode& root) {
  std::string names;
  for (int i = 0; i < root.field_count(); ++i) {
    if (i > 0) names += ", ";
    if (i == kShownNames) return names + "...";
    names += quote(root.field(i)->name());
  }
  return names.empty() ? "no column at all" : names;
}

std::string type_of(const parquet::schema::Node& node) {
  const std::string logical =
      node.logical_type() == nullptr ? "None" : node.logical_type()->ToString();
  if (node.is_group()) return logical == "None" ? "group of columns" : logical;
  const std::string physical = parquet::TypeToString(
      static_cast<const parquet::schema::PrimitiveNode&>(node).physical_type());
  return logical == "None" ? physical : fmt::format("{} ({})", logical, physical);
}

/// The number of the column of strings `name` among the columns of values. Messages start with
/// `path`.
int find_column(const parquet::SchemaDescriptor& schema, const std::string& path,
                const std::string& name) {
  const parquet::schema::GroupNode& root = *schema.group_node();
  const parquet::schema::Node* found = nullptr;
  for (int i = 0; i < root.field_count(); ++i) {
    if (root.field(i)->name() != name) continue;
    require(found == nullptr, "{}: has the column {} twice", path, quote(name));
    found = root.field(i).get();
  }
  require(found != nullptr, "{}: has no column {}, but {}: choose one with --field", path,
          quote(name), names_of(root));
  const bool flat = found->is_primitive() && !found->is_repeated();
  const auto* value = flat ? static_cast<const parquet::schema::PrimitiveNode*>(found) : nullptr;
  const bool text = flat && value->physical_type() == parquet::Type::BYTE_ARRAY &&
                    (value->converted_type() == parquet::ConvertedType::UTF8 ||
                     (value->logical_type() != nullptr && value->logical_type()->is_string()));
  require(text, "{}: column {} must have one string in each row, but is of type {}{}", path,
          quote(name), found->is_repeated() ? "repeated " : "", type_of(*found));
  const int index = schema.ColumnIndex(*found);
  require(index >= 0, "{}: column {} has no values", path, quote(name));
  return index;
}

}  // namespace

struct ParquetTexts::File {
  std::unique_ptr<parquet::ParquetFileReader> reader;
  std::shared_ptr<parquet::FileMetaData> index;
  int column = 0;
  bool optional = false;  ///< rows may be null

  int next_group = 0;
  std::shared_ptr<parquet::RowGroupReader> group;  ///< null between two groups
  std::shared_ptr<parquet::ByteArrayReader> values;
  int64_t group_rows = 0;  ///< rows of the group that were read
};

bool reads_parquet() { return true; }

ParquetTexts::ParquetTexts(std::string path, std::string column, bool skip_malformed)
    : path_(std::move(path)),
      column_(std::move(column)),
      skip_malformed_(skip_malformed),
      file_(std::make_unique<File>()) {
  std::error_code ignored;
  require(fs::is_regular_file(path_, ignored),
          "{}: is not a file, and the index of Parquet is at its end: write it to a file first",
          path_ == "-" ? "standard input" : path_);
  size_ = static_cast<int64_t>(fs::file_size(path_, ignored));
  explained(
      [&] {
        parquet::ReaderProperties properties;
        properties.enable_buffered_stream();
        properties.set_page_checksum_verification(true);
        file_->reader =
            parquet::ParquetFileReader::OpenFile(path_, /*memory_map=*/false, properties);
        file_->index = file_->reader->metadata();
        const parquet::SchemaDescriptor& schema = *file_->index->schema();
        file_->column = find_column(schema, path_, column_);
        file_->optional = schema.Column(file_->column)->max_definition_level() > 0;
      },
      [&] { return fmt::format("{}: cannot be read as Parquet", path_); });
}

ParquetTexts::~ParquetTexts() = default;

std::string ParquetTexts::here() const {
  return fmt::format("{}: column {} cannot be read from row {} on", path_, quote(column_),
                     row_ + 1);
}

void ParquetTexts::open_group() {
  file_->group = file_->reader->RowGroup(file_->next_group++);
  file_->values =
      std::dynamic_pointer_cast<parquet::ByteArrayReader>(file_->group->Column(file_->column));
  require(file_->values != nullptr, "{}: a row group has values of another type", here());
  file_->group_rows = 0;
}

void ParquetTexts::end_group() {
  const int64_t rows = file_->group->metadata()->num_rows();
  require(file_->group_rows == rows,
          "{}: row group {} has {} values, but {} rows: the file is damaged", here(),
          file_->next_group - 1, file_->group_rows, rows);
  file_->values.reset();
  file_->group.reset();
}

void ParquetTexts::refuse_row(std::string_view problem) {
  const std::string what =
      fmt::format("{}: row {}: column {} {}", path_, row_ + 1, quote(column_), problem);
  require(skip_malformed_, "{}; skip such rows with --skip-malformed", what);
  if (malformed_rows_++ == 0) first_malformed_ = what;
}

void ParquetTexts::take(std::string_view text,
                        const std::function<void(std::string_view)>& on_text) {
  if (is_valid_utf8(text)) {
    on_text(text);
  } else {
    refuse_row("is not valid UTF-8");
  }
}

bool ParquetTexts::read(const std::function<void(std::string_view)>& on_text) {
  std::array<int16_t, kBatchRows> defined;
  std::array<parquet::ByteArray, kBatchRows> values;
  while (true) {
    int64_t num_rows = 0, num_values = 0;
    const bool any = explained(
        [&] {
          if (file_->group == nullptr) {
            if (file_->next_group == file_->index->num_row_groups()) return false;
            open_group();
          }
          if (!file_->values->HasNext()) {
            end_group();
            return true;
          }
          num_rows = file_->values->ReadBatch(static_cast<int64_t>(kBatchRows), defined.data(),
                                              nullptr, values.data(), &num_values);
          require(num_rows > 0 && num_values <= num_rows, "{}: it ends too early", here());
          return true;
        },
        [&] { return here(); });
    if (!any) return false;
    if (num_rows == 0) continue;
    int64_t next = 0;
    for (int64_t i = 0; i < num_rows; ++i, ++row_) {
      if (file_->optional && defined[static_cast<size_t>(i)] == 0) {
        refuse_row("is null");
        continue;
      }
      require(next < num_values, "{}: a value is missing", here());
      const parquet::ByteArray& value = values[static_cast<size_t>(next++)];
      take({reinterpret_cast<const char*>(value.ptr), value.len}, on_text);
    }
    file_->group_rows += num_rows;
    return true;
  }
}

int64_t ParquetTexts::position() const {
  const auto rows = static_cast<double>(std::max<int64_t>(file_->index->num_rows(), 1));
  const double done = std::clamp(static_cast<double>(row_) / rows, 0.0, 1.0);
  return static_cast<int64_t>(done * static_cast<double>(size_));
}

#else

struct ParquetTexts::File {};

bool reads_parquet() { return false; }

ParquetTexts::ParquetTexts(std::string path, std::string column, bool skip_malformed)
    : path_(std::move(path)), column_(std::move(column)), skip_malformed_(skip_malformed) {
  fail("{}: cannot be read: this program was built without Parquet", path_);
}

ParquetTexts::~ParquetTexts() = default;
bool ParquetTexts::read(const std::function<void(std::string_view)>& /*on_text*/) { return false; }
int64_t ParquetTexts::position() const { return 0; }

#endif

}  // namespace tessera
