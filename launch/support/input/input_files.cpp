#include "launch/support/input/input_files.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/error.h"
#include "launch/support/files/file_pieces.h"
#include "launch/support/input/check_text.h"
#include "launch/support/input/json_lines.h"
#include "launch/support/input/line_builder.h"
#include "launch/support/input/parquet_texts.h"

namespace tessera {
namespace {

InputFormat format_by_name(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) {
      path.remove_suffix(ending.size());
      break;
    }
  }
  if (path.ends_with(".parquet")) return InputFormat::parquet;
  return has_json_rows(path) ? InputFormat::jsonl : InputFormat::text;
}

InputFormat chosen_format(std::string_view path, InputFormats formats) {
  switch (formats) {
    case InputFormats::by_name:
      return format_by_name(path);
    case InputFormats::text:
      return InputFormat::text;
    case InputFormats::jsonl:
      return InputFormat::jsonl;
    case InputFormats::parquet:
      return InputFormat::parquet;
  }
  fail("unknown formats");
}

void for_each_document(const TextLines& lines, const JsonLinesOptions& options,
                       const std::function<void(std::string_view)>& on_piece,
                       const std::function<void()>& on_end) {
  const TextPart part = read_json_lines(lines, options).text;
  size_t begin = 0;
  for (const Mark& mark : part.marks) {
    on_piece(std::string_view(part.text).substr(begin, mark.at - begin));
    on_end();
    begin = mark.at;
  }
}

}  // namespace

std::string_view to_string(InputFormat format) {
  switch (format) {
    case InputFormat::text:
      return "text";
    case InputFormat::jsonl:
      return "JSON lines";
    case InputFormat::parquet:
      return "Parquet";
    case InputFormat::ids:
      return "ids";
  }
  fail("unknown format");
}

std::vector<InputFile> find_input_files(const InputOptions& options, std::string_view who) {
  std::vector<InputFile> files;
  bool all_text = true;
  for (std::string& path : find_inputs(options.inputs, who)) {
    const InputFormat format = chosen_format(path, options.formats);
    require(format != InputFormat::parquet || reads_parquet(),
            "{}: {} is Parquet, which this program was built without: build it with Apache Arrow "
            "(cmake -DTESSERA_PARQUET=ON), or convert the file to JSON lines",
            who, path);
    all_text = all_text && format == InputFormat::text;
    files.push_back({std::move(path), format});
  }
  const char* given = options.field ? "--field" : options.skip_malformed ? "--skip-malformed" : "";
  require(!all_text || *given == '\0',
          "{}: {} is for JSON lines and Parquet, but all inputs are text: add --format jsonl or "
          "--format parquet if they are not",
          who, given);
  return files;
}

InputText::InputText(std::vector<InputFile> some_files, const InputOptions& options)
    : files(std::move(some_files)), skip_malformed(options.skip_malformed) {
  if (options.field) field = *options.field;
}

InputText::InputText(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) files.push_back({path, InputFormat::text});
}

void for_each_text(const InputText& input, const std::function<void(std::string_view)>& on_piece,
                   const std::function<void()>& on_end) {
  const JsonLinesOptions json = {.field = input.field, .skip_malformed = input.skip_malformed};
  for (const InputFile& file : input.files) {
    if (file.format == InputFormat::parquet) {
      ParquetTexts texts(file.path, input.field, input.skip_malformed);
      while (texts.read([&](std::string_view text) {
        on_piece(text);
        on_end();
      })) {
      }
      continue;
    }
    const bool is_text = file.format == InputFormat::text;
    std::deque<TextLines> parts;
    LineBuilder lines(file.path, parts);
    const auto emit = [&] {
      for (; !parts.empty(); parts.pop_front()) {
        for_each_document(parts.front(), json, on_piece, on_end);
      }
    };
    PieceReader reader(file.path);
    std::string_view piece = reader.next();
    check_text(file.path, piece);
    for (; !piece.empty(); piece = reader.next()) {
      is_text ? on_piece(piece) : lines.add(piece, reader.position());
      emit();
    }
    lines.end_file();
    emit();
    if (is_text) on_end();
  }
}

}  // namespace tessera
