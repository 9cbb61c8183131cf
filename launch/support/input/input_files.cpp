#include "launch/support/input/input_files.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/error.h"
#include "launch/support/files/file_pieces.h"
#include "launch/support/input/json_lines.h"
#include "launch/support/input/line_builder.h"

namespace tessera {
namespace {

bool is_named_jsonl(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) {
      path.remove_suffix(ending.size());
      break;
    }
  }
  return path.ends_with(".jsonl") || path.ends_with(".json");
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

std::vector<InputFile> find_input_files(const InputOptions& options, std::string_view who) {
  std::vector<InputFile> files;
  bool any_jsonl = false;
  for (std::string& path : find_inputs(options.inputs, who)) {
    const bool jsonl = options.formats == InputFormats::by_name
                           ? is_named_jsonl(path)
                           : options.formats == InputFormats::jsonl;
    any_jsonl = any_jsonl || jsonl;
    files.push_back({std::move(path), jsonl ? InputFormat::jsonl : InputFormat::text});
  }
  const char* given = options.field ? "--field" : options.skip_malformed ? "--skip-malformed" : "";
  require(any_jsonl || *given == '\0',
          "{}: {} is for JSON lines, but all inputs are text: add --format jsonl if they are not",
          who, given);
  return files;
}

InputText::InputText(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) files.push_back({path, InputFormat::text});
}

void for_each_text(const InputText& input, const std::function<void(std::string_view)>& on_piece,
                   const std::function<void()>& on_end) {
  const JsonLinesOptions json = {.field = input.field, .skip_malformed = input.skip_malformed};
  for (const InputFile& file : input.files) {
    if (file.format == InputFormat::text) {
      for_each_piece(file.path, on_piece);
      on_end();
      continue;
    }
    std::deque<TextLines> parts;
    LineBuilder lines(file.path, parts);
    const auto emit = [&] {
      for (; !parts.empty(); parts.pop_front()) {
        for_each_document(parts.front(), json, on_piece, on_end);
      }
    };
    PieceReader reader(file.path);
    for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
      lines.add(piece, reader.position());
      emit();
    }
    lines.end_file();
    emit();
  }
}

}  // namespace tessera
