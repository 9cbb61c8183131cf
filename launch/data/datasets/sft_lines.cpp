#include "launch/data/datasets/sft_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/chat_messages.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kPromptNames = {"prompt", "completion"};
constexpr std::array<std::string_view, 1> kMessages = {"messages"};
constexpr std::string_view kSftFields = "prompt and completion (or messages in all lines)";

/// Appends the list `key` of a line. The messages of each list are counted from 1.
void add_list(const Json& object, std::string_view key, const std::string& where,
              std::vector<Message>& messages) {
  const auto found = object.find(key);
  require(found != object.end(), "{}: there is no \"{}\"", where, key);
  require(found->is_array(), "{}: \"{}\" must be a list of messages{}, but is {}", where, key,
          key == kMessages[0] ? "" : " because line 1 has one", json_type(*found));
  const std::string of = key == kMessages[0] ? "" : fmt::format(" of the {}", key);
  const size_t before = messages.size();
  add_messages(*found, where, of, messages);
  for (size_t i = before; i < messages.size(); ++i) {
    require(!messages[i].text.empty(),
            "{}, message {}{}: the content is empty: leave the message out", where, i - before + 1,
            of);
  }
}

/// Reads conversations that are split into the lists `names`, of which the last one is learned.
void read_messages(LineReader& lines, std::span<const std::string_view> names,
                   const std::function<void(const SftLine&)>& visit) {
  std::vector<Message> messages;
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, kSftFields);
    for (const auto& [key, value] : object.items()) {
      require(std::ranges::find(names, key) != names.end(),
              "{}: has a field {}, but only {} are allowed", where, quote(key), kSftFields);
    }
    messages.clear();
    size_t given = 0;
    for (const std::string_view name : names) {
      given = messages.size();
      add_list(object, name, where, messages);
    }
    const auto is_reply = [](const Message& message) { return message.role == Role::assistant; };
    require(std::ranges::any_of(std::span(messages).subspan(given), is_reply),
            "{}: there is no message of the assistant{}, from which the model learns", where,
            names.size() == 1 ? "" : fmt::format(" in the {}", names.back()));
    require(is_reply(messages.back()),
            "{}: the last message is of the {}, but the model learns only from those of the "
            "assistant: leave out what follows the assistant's last message",
            where, kRoleNames[static_cast<size_t>(messages.back().role)]);
    visit({lines.number(), messages, given});
  }
}

void read_prompts(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  for_each_text_record(path, kPromptFields, [&](const TextRecord& record) {
    const Message messages[] = {{Role::user, *record.texts[0]},
                                {Role::assistant, *record.texts[1]}};
    visit({record.number, messages});
  });
}

/// The names of the lists of messages in the first line; none if it has none or cannot be read.
std::span<const std::string_view> message_lists(const std::string& path) {
  const Json object = first_json_line(path);
  if (object.contains(kMessages[0])) return kMessages;
  const auto is_list = [&](std::string_view name) {
    return object.contains(name) && object[std::string(name)].is_array();
  };
  if (std::ranges::any_of(kPromptNames, is_list)) return kPromptNames;
  return {};
}

}  // namespace

const TextFields kPromptFields = {kPromptNames, 2, kSftFields};

bool has_messages(const std::string& path) { return !message_lists(path).empty(); }

void for_each_sft_line(const std::string& path, const std::function<void(const SftLine&)>& visit) {
  const std::span<const std::string_view> lists = message_lists(path);
  if (lists.empty()) return read_prompts(path, visit);
  const MappedFile file(path);
  LineReader lines(file);
  read_messages(lines, lists, visit);
}

}  // namespace tessera
