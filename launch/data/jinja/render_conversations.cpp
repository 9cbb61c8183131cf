#include "launch/data/jinja/render_conversations.h"

#include "core/error.h"
#include "launch/data/jinja/jinja_program.h"

namespace tessera {

std::vector<RenderedConversation> render_conversations(const ChatForm& form, const ToolRows& rows,
                                                       const ColumnNames& columns,
                                                       const std::vector<std::string>& names) {
  const std::string& first = rows.where.front();
  require(form.name == "imported",
          "{}: has tools or tool calls, which the chat template of an imported model writes, but "
          "the template is {}: start from a model that was imported with its own, or write them "
          "as text in messages",
          first, form.name);
  Json request = {{"rows", rows.texts},
                  {"lists", rows.lists},
                  {"columns", columns},
                  {"names", names},
                  {"prompt_end", form.prompt_end},
                  {"given", form.last.given},
                  {"reply_end", form.reply_end}};
  Json answer;
  try {
    answer = run_jinja_program(kRenderConversationsPy, std::move(request), form.jinja,
                               form.jinja_tokens, form.date);
  } catch (const Error& error) {
    fail("{}: the model's chat template cannot write its tools: {}", first, error.what());
  }
  std::vector<RenderedConversation> found;
  for (const Json& row : answer.at("rows")) {
    const std::string& where = rows.where[found.size()];
    if (row.contains("problem")) fail("{}: {}", where, row["problem"].get<std::string>());
    found.push_back({row.at("parts").get<std::vector<std::string>>(), row.at("given")});
  }
  return found;
}

}  // namespace tessera
