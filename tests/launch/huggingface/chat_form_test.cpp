#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "core/ops/cross_entropy.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/sft_dataset.h"
#include "launch/huggingface/import/chat/derive_chat_form.h"
#include "launch/huggingface/import/chat/import_chat.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_model.h"
#include "tests/launch/huggingface/fixture.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr size_t kSystem = 0, kUser = 1, kAssistant = 2;

// Templates in the styles of published models.

constexpr const char* kLlama =
    "{{- bos_token }}{%- for message in messages %}"
    "{{- '<|header|>' + message['role'] + '<|/header|>\n\n' + message['content'] | trim + "
    "'<|eot|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|header|>assistant<|/header|>\n\n' }}{%- endif %}";

constexpr const char* kZephyr =
    "{% for message in messages %}\n"
    "{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
    "{% endfor %}";

constexpr const char* kMistral =
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}";

// The system's text begins the first message of the user.
constexpr const char* kGemma =
    "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
    "{%- set first = messages[0]['content'] + '\n\n' -%}{%- set rest = messages[1:] -%}"
    "{%- else -%}{%- set first = '' -%}{%- set rest = messages -%}{%- endif -%}"
    "{%- for message in rest -%}"
    "{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('roles must alternate') }}{%- endif -%}"
    "{%- set role = 'model' if message['role'] == 'assistant' else 'user' -%}"
    "{{ '<turn>' + role + '\n' + (first if loop.first else '') + message['content'] | trim + "
    "'</turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<turn>model\n' }}{%- endif -%}";

// As in Qwen3: the last reply has a thought, and earlier ones lose theirs.
constexpr const char* kQwen3 =
    "{%- for m in messages %}{%- set text = m.content %}{%- set thought = '' %}"
    "{%- if m.role == 'assistant' and '</think>' in text %}"
    "{%- set thought = text.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
    "{%- set text = text.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{{- '<|eot|>' + m.role + '\n' }}{%- if m.role == 'assistant' and loop.last %}"
    "{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + text.lstrip('\n') }}"
    "{%- else %}{{- text }}{%- endif %}{{- '</s>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|eot|>assistant\n' }}{%- endif %}";

// As in Llama 2: the system's text begins the first message, whose white space goes as a whole.
constexpr const char* kLlama2 =
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}"
    "{% set rest = messages %}{% endif %}{% for m in rest %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('no') }}{% endif %}"
    "{% set text = m.content %}{% if loop.first and messages[0].role == 'system' %}"
    "{% set text = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' + text %}{% endif %}"
    "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";

// Special tokens begin each reply, and a prompt has one of its own.
constexpr const char* kChannels =
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ '<turn><|header|>final<|eot|>' + m.content + '</turn>' }}{% else %}"
    "{{ '<turn>' + m.role + ':' + m.content + '</turn>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<turn>' }}{% endif %}";
constexpr const char* kForced =
    "{% for m in messages %}{{ m.role + ':' + m.content + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:<|header|>' }}{% endif %}";

const std::map<std::string, std::string> kTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
const std::vector<std::string> kNames = {"<s>",         "</s>",   "<|eot|>", "<|header|>",
                                         "<|/header|>", "<turn>", "</turn>"};

bool has_jinja() {
  return std::system("python3 -c 'import jinja2' 2>/dev/null") == 0;  // NOLINT(cert-env33-c)
}

ChatForm form_of(const std::string& jinja, std::vector<std::string>& notes) {
  DerivedChat derived = derive_chat_form(jinja, kTokens, kNames);
  notes = derived.notes;
  return derived.form;
}

ChatForm form_of(const std::string& jinja) {
  std::vector<std::string> notes;
  ChatForm form = form_of(jinja, notes);
  EXPECT_THAT(notes, testing::IsEmpty());
  return form;
}

/// The text before a message of `role`, after one of `previous` or at the start.
std::optional<std::string> before(const ChatForm::Turns& turns, size_t role) {
  return turns[role] ? std::optional(turns[role]->before) : std::nullopt;
}

constexpr Trim kTrimmed = {Strip::space, Strip::space};

TEST(ChatForm, DescribesTheTemplatesOfPublishedModels) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  const ChatForm llama = form_of(kLlama);
  EXPECT_EQ(before(llama.at_start, kSystem), "<s><|header|>system<|/header|>\n\n");
  EXPECT_EQ(before(llama.after[kUser], kAssistant), "<|eot|><|header|>assistant<|/header|>\n\n");
  EXPECT_EQ(before(llama.after[kAssistant], kUser), "<|header|>user<|/header|>\n\n");
  EXPECT_EQ(before(llama.after[kUser], kUser), "<|eot|><|header|>user<|/header|>\n\n")
      << "any order";
  EXPECT_EQ(llama.reply_end, "<|eot|>");
  EXPECT_EQ(llama.at_start[kSystem]->trim, kTrimmed);
  EXPECT_EQ(llama.after[kSystem][kUser]->trim, kTrimmed);
  EXPECT_EQ(llama.earlier.trim, kTrimmed);
  EXPECT_EQ(llama.last, llama.earlier);
  EXPECT_EQ(llama.tokens,
            (std::vector<std::string>{"<s>", "<|/header|>", "<|eot|>", "<|header|>"}));

  const ChatForm zephyr = form_of(kZephyr);
  EXPECT_EQ(before(zephyr.at_start, kUser), "<|user|>\n");
  EXPECT_EQ(before(zephyr.after[kSystem], kUser), "</s>\n<|user|>\n");
  EXPECT_EQ(before(zephyr.after[kUser], kAssistant), "</s>\n<|assistant|>\n");
  EXPECT_EQ(before(zephyr.after[kAssistant], kUser), "\n<|user|>\n");
  EXPECT_EQ(zephyr.reply_end, "</s>");
  EXPECT_EQ(zephyr.at_start[kUser]->trim, Trim());
  EXPECT_EQ(zephyr.last, ChatForm::Reply());

  const ChatForm mistral = form_of(kMistral);
  EXPECT_EQ(before(mistral.at_start, kUser), "<s>[INST] ");
  EXPECT_EQ(before(mistral.at_start, kSystem), std::nullopt);
  EXPECT_EQ(before(mistral.after[kUser], kAssistant), " [/INST]");
  EXPECT_EQ(before(mistral.after[kUser], kUser), std::nullopt);
  EXPECT_EQ(mistral.last.begin, " ") << "which add_generation_prompt leaves to the model";
  EXPECT_EQ(before(mistral.after[kAssistant], kUser), "[INST] ");

  const ChatForm gemma = form_of(kGemma);
  EXPECT_EQ(before(gemma.at_start, kUser), "<s><turn>user\n");
  EXPECT_EQ(before(gemma.at_start, kSystem), "<s><turn>user\n");
  EXPECT_EQ(before(gemma.after[kSystem], kUser), "\n\n");
  EXPECT_EQ(before(gemma.after[kAssistant], kUser), "\n<turn>user\n");
  EXPECT_EQ(gemma.at_start[kSystem]->trim, Trim());
  EXPECT_EQ(gemma.after[kSystem][kUser]->trim, kTrimmed);

  const ChatForm qwen3 = form_of(kQwen3);
  EXPECT_EQ(qwen3.earlier, (ChatForm::Reply{.thoughts = Thoughts::drop_lines}));
  EXPECT_EQ(
      qwen3.last,
      (ChatForm::Reply{"", "<think>\n\n</think>\n\n", {Strip::lines, Strip::none}, Thoughts::own}));

  const ChatForm llama2 = form_of(kLlama2);
  EXPECT_EQ(before(llama2.at_start, kSystem), "<s>[INST] <<SYS>>\n");
  EXPECT_EQ(before(llama2.after[kSystem], kUser), "\n<</SYS>>\n\n");
  EXPECT_EQ(llama2.at_start[kUser]->trim, kTrimmed);
  EXPECT_EQ(llama2.after[kSystem][kUser]->trim, (Trim{Strip::none, Strip::space}));
  EXPECT_EQ(llama2.last, (ChatForm::Reply{"", " ", kTrimmed}));
  EXPECT_EQ(llama2.reply_end, " </s>");

  const ChatForm channels = form_of(kChannels);
  EXPECT_EQ(before(channels.after[kUser], kAssistant), "</turn><turn>");
  EXPECT_EQ(channels.last.begin, "<|header|>final<|eot|>");
  EXPECT_EQ(channels.earlier, channels.last);

  for (const ChatForm* own : {&chatml_form(), &plain_form()}) {
    const auto [derived, checks, notes] =
        derive_chat_form(own->jinja, kTokens, {"<|im_start|>", "<|im_end|>", "</s>"});
    EXPECT_THAT(notes, testing::IsEmpty());
    EXPECT_EQ(derived.at_start, own->at_start) << own->name;
    EXPECT_EQ(derived.after, own->after) << own->name;
    EXPECT_EQ(derived.reply_end, own == &plain_form() ? "</s>" : own->reply_end);
    EXPECT_EQ(chat_form_from_json(to_json(derived), "here"), derived);
  }
}

TEST(ChatForm, SaysWhatTemplatesHaveNoForm) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  const std::pair<std::string, const char*> kBad[] = {
      {"{% for m in messages %}{{ loop.index ~ m['content'] + eos_token }}{% endfor %}",
       "where earlier messages suggest"},
      {"{% for m in messages %}{{ m['role'] + ':' + m['content'] + '\n' }}{% endfor %}"
       "{% if add_generation_prompt %}reply:{% endif %}",
       "not what precedes other replies"},
      {"{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}", "no special token"},
      {"{% for m in messages %}{{ m['content'] | upper + eos_token }}{% endfor %}",
       "each message once, unchanged"},
      {"{% for m in messages %}{{ m['content'] | replace('\n', ' ') + eos_token }}{% endfor %}",
       "changes the white space"},
      {"{{ raise_exception('never') }}", "it fails for messages of the user and replies: never"},
      {"{{ open('/etc/passwd') }}", "'open' is undefined"},
      {"{{ ''.__class__.__mro__ }}", "it fails for"},
      {"{% for m in messages %}", "it is no template"}};
  for (const auto& [jinja, fact] : kBad) {
    SCOPED_TRACE(jinja);
    expect_error([&] { form_of(jinja); }, {fact});
  }
}

TEST(ChatForm, PlacesSpecialTokensAndReplies) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"u s", "us e", "use r"}, {"<s>", "</s>"});
  const auto text = [&](std::string_view t) { return tokenizer.encode(t); };
  const Ids start = tokenizer.encode_with_special("<s>"),
            end = tokenizer.encode_with_special("</s>");
  ASSERT_EQ(start.size() + end.size(), 2u);
  auto form = std::make_shared<ChatForm>();
  form->name = "imported";
  form->at_start[kUser] = {"<s>[INST] "};
  form->after[kUser][kAssistant] = {" [/INST]"};
  form->after[kAssistant][kUser] = {"<s>[INST] "};
  form->earlier.begin = form->last.begin = " ";
  form->reply_end = " </s>";
  form->at_start[kUser]->trim = kTrimmed;
  form->tokens = {"<s>", "</s>"};
  const ChatTemplate chat(form, tokenizer);
  EXPECT_EQ(chat.reply_end(), end[0]);
  const Message messages[] = {{Role::user, "\u00a0Hi \n"}, {Role::assistant, "Hello "}};
  ChatTokens out;
  chat.encode(messages, "here", out);
  Ids expected = start;
  const auto add = [&](const Ids& more) {
    expected.insert(expected.end(), more.begin(), more.end());
  };
  add(text("[INST] Hi [/INST]"));
  EXPECT_EQ(chat.prompt({messages, 1}, "here"), expected);
  const size_t prompt = expected.size();
  add(text(" Hello  "));
  add(end);
  EXPECT_EQ(out.tokens, expected);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(out.is_learned[i], i >= prompt) << i;

  const Message wrong[] = {{Role::system, "S"}, {Role::user, "U"}, {Role::assistant, "A"}};
  expect_error([&] { chat.encode(wrong, "x.jsonl:3", out); },
               {"x.jsonl:3: message 1 is of the system", "as the first one", "one of the user"});
  form->tokens = {"<bos>"};
  expect_error([&] { ChatTemplate(form, tokenizer); }, {"needs the token <bos>", "bpe lacks"});
  form->problem = "it is too clever";
  expect_error([&] { chosen_chat_form(ChatFormat::automatic, form, tokenizer); },
               {"data.chat_template is auto, but it is too clever", "choose chatml or plain"});
  EXPECT_EQ(chosen_chat_form(ChatFormat::plain, form, tokenizer)->name, "plain");
}

// As in Qwen2.5: results of tools are of the user, and the system has the list of tools.
constexpr const char* kTools =
    "{%- if tools %}{{- '<s>system\n' + strftime_now('%d %b %Y') }}"
    "{%- for tool in tools %}{{- '\n' + tool | tojson }}{%- endfor %}{{- '</s>' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<s>user' }}{%- endif %}"
    "{{- '\n<r>' + m.content + '</r>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '</s>' }}{%- endif %}"
    "{%- else %}{{- '<s>' + m.role + '\n' + (m.content or '') }}{%- for call in m.tool_calls %}"
    "{%- if loop.index > 2 %}{{- raise_exception('too many calls') }}{%- endif %}"
    "{{- '<call>' + call.function.name + call.function.arguments | tojson }}{%- endfor %}"
    "{{- '</s>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<s>assistant\n' }}{%- endif %}";

class ToolConversations : public testing::Test {
 protected:
  /// The only example of a file.
  Sample read(const std::string& row, const ChatForm& form) const {
    write_file(folder_ / "t.jsonl", row);
    const ChatTemplate chat(std::make_shared<const ChatForm>(form), tokenizer_);
    Sample sample;
    SftExamples(folder_ / "t.jsonl", chat, {.seq_length = 1000}).append(0, sample);
    return sample;
  }

  test::TestFolder folder_;
  const BpeTokenizer tokenizer_ = small_bpe_tokenizer({}, {"<s>", "</s>"});
};

constexpr const char* kCalls =
    R"({"role": "user", "content": "u"}, {"role": "assistant", "content": null, "tool_calls": [)"
    R"({"id": "1", "function": {"name": "f", "arguments": {"z": 1.50, "a": [null, "\u72d0\"<"]}}},)"
    R"({"function": {"name": "g", "arguments": {"n": 123456789012345678901234567890}}}]},)"
    R"({"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "tool", "content": ""})";

TEST_F(ToolConversations, HaveTheTokensAndTargetsOfTheirTemplate) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  ChatForm form = form_of(kTools);
  EXPECT_NE(form.date, "");
  form.date = "2024-07-26";
  const std::string tools = R"("tools": [{"type": "function", "b": {"a": true}}])";
  const std::string reply = R"({"role": "assistant", "tool_calls": null, "content": " done"})";
  const std::string listed =
      "<s>system\n26 Jul 2024\n{\"type\": \"function\", \"b\": {\"a\": true}}</s>";
  const std::string prompt = "<s>user\nu</s><s>assistant\n";
  const std::string calls =
      "<call>f{\"z\": 1.5, \"a\": [null, \"狐\\\"<\"]}"
      "<call>g{\"n\": 123456789012345678901234567890}</s>";
  const std::string results = "<s>user\n<r>r</r>\n<r></r></s><s>assistant\n";
  struct Case {
    std::string row;
    std::vector<std::string> parts;  // the second, fourth and so on are learned
  };
  const Case cases[] = {
      {fmt::format("{{\"messages\": [{}, {}], {}}}", kCalls, reply, tools),
       {listed + prompt, calls, results, " done</s>"}},
      {fmt::format("{{\"messages\": [{}, {}], \"tools\": null}}", kCalls, reply),
       {prompt, calls, results, " done</s>"}},
      {fmt::format("{{\"prompt\": [{}], \"completion\": [{}], {}}}", kCalls, reply, tools),
       {listed + prompt + calls + results, " done</s>"}},
      {fmt::format("{{\"messages\": [{{\"role\": \"user\", \"content\": \"u\"}}, {}]}}", reply),
       {prompt, " done</s>"}},
  };
  for (const auto& [row, parts] : cases) {
    SCOPED_TRACE(row);
    Ids tokens, targets;
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const int32_t token : tokenizer_.encode_with_special(parts[i])) {
        tokens.push_back(token);
        targets.push_back(i % 2 == 1 ? token : kIgnoreTarget);
      }
    }
    tokens.pop_back();
    targets.erase(targets.begin());
    const Sample sample = read(row, form);
    EXPECT_EQ(sample.tokens, tokens);
    EXPECT_EQ(sample.targets, targets);
  }
}

TEST_F(ToolConversations, AreRefusedIfTheTemplateCannotWriteThem) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  const ChatForm form = form_of(kTools);
  ChatForm without_tools = form_of(kMistral);
  without_tools.jinja_tokens = kTokens;
  const std::string user = R"({"role": "user", "content": "u"})";
  const std::string reply = R"({"role": "assistant", "content": "b"})";
  const std::string tools = R"("tools": [{"name": "f"}])";
  const std::string call = R"({"function": {"name": "f", "arguments": {}}})";
  const auto calling = [&](const std::string& calls, const std::string& more = "") {
    return fmt::format(R"({{"role": "assistant", "tool_calls": [{}]{}}})", calls, more);
  };
  const struct {
    ChatForm form;
    std::string messages, tools;
    const char* fact;
  } cases[] = {
      {plain_form(), user + "," + reply, tools, "the template is plain"},
      {without_tools, user + "," + reply, tools, "does not write tools"},
      {without_tools, user + "," + calling(call, R"(, "content": "b")"), "",
       "message 2: the chat template does not write tool_calls"},
      {form, user + "," + calling(call + "," + call + "," + call), "", "too many calls"},
      {form, user + "," + calling("{}"), "", "message 2: a call must have a function"},
      {form, user + "," + calling(call, R"(, "content": 3)"), "", "message 2: the content must be"},
      {form, user + "," + calling(call, R"(, "thinking": "t")"), "", "has a field \"thinking\""},
      {form, R"({"role": "tool", "content": "</s>"},)" + reply, "",
       "contains </s>, which would be"},
      {form, R"({"role": "function", "content": "r"},)" + reply, tools, "message 1: the role is"},
      {form, user + "," + calling(call) + R"(,{"role": "tool", "content": "r"})", "",
       "the last message must be of the assistant"},
      {form, user + "," + reply, R"("tools": 3)", "the tools must be a list"},
      {form, "3," + calling(call), "", "must have lists of messages"},
  };
  for (const auto& [with, messages, list, fact] : cases) {
    SCOPED_TRACE(messages);
    const std::string row =
        fmt::format("{{\"messages\": [{}]{}{}}}", messages, list.empty() ? "" : ", ", list);
    expect_error([&, used = with] { read(row, used); }, {"t.jsonl:1: ", fact});
  }
}

TEST(ChatForm, NotesWhatTemplatesDoToReplies) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  std::vector<std::string> notes;
  const ChatForm dropped = form_of(  // as in DeepSeek's models that reason
      "{% for m in messages %}{% set text = m['content'] %}"
      "{% if m['role'] == 'assistant' and '</think>' in text %}"
      "{% set text = text.split('</think>')[-1] %}{% endif %}"
      "{{ m['role'] + ':' + text + eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
      notes);
  EXPECT_EQ(before(dropped.after[kUser], kAssistant), "</s>assistant:");
  EXPECT_EQ(dropped.last.thoughts, Thoughts::drop);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("leaves thoughts out of all replies"));
  const ChatForm forced = form_of(kForced, notes);
  EXPECT_EQ(forced.prompt_end, "<|header|>");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("ends prompts with \"<|header|>\""));
}

/// BPE of characters with a token for "▁", special tokens, and no merges.
BpeDescription characters_bpe() {
  BpeDescription bpe;
  bpe.characters = true;
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.push_back(fmt::format("<0x{:02X}>", byte));
  bpe.tokens.insert(bpe.tokens.end(), {"▁", "</s>", "<|user|>", "<|bot|>"});
  bpe.special = {257, 258, 259};
  return bpe;
}

/// What precedes replies ends with white space, special tokens, or text.
std::vector<ChatForm> forms_of_published_models() {
  ChatForm zephyr{"zephyr"};
  zephyr.at_start[kUser] = {"<|user|>\n"};
  zephyr.after[kUser][kAssistant] = {"</s>\n<|bot|>\n"};
  zephyr.after[kAssistant][kUser] = {"\n<|user|>\n"};
  zephyr.reply_end = "</s>";
  ChatForm mistral{"mistral"};
  mistral.at_start[kUser] = {"<|user|> "};
  mistral.after[kUser][kAssistant] = {" <|bot|>"};
  mistral.after[kAssistant][kUser] = {"<|user|> "};
  mistral.earlier.begin = mistral.last.begin = " ";
  mistral.reply_end = " </s>";
  ChatForm llama = mistral;
  llama.name = "llama";
  llama.after[kUser][kAssistant] = {" [/INST]"};
  ChatForm channels = zephyr;
  channels.name = "channels";
  channels.after[kUser][kAssistant] = {"</s>\n"};
  channels.earlier.begin = "<|bot|> <|user|>";
  channels.last.begin = "<|bot|>say\n";
  ChatForm plain = plain_form();
  plain.reply_end = "</s>";
  return {zephyr, mistral, llama, channels, plain};
}

// Special tokens are recognized, and the same text is encoded as a whole.
TEST(ChatForm, HasTheTokensOfTheWholeText) {
  struct Case {
    const char* name;
    std::function<void(BpeDescription&)> change;
  };
  using Steps = Normalizer;
  const Case cases[] = {
      {"marks no text", [](auto& bpe) { bpe.metaspace = PrefixMark::never; }},
      {"marks the first text", [](auto& bpe) { bpe.metaspace = PrefixMark::first; }},
      {"marks each text", [](auto& bpe) { bpe.metaspace = PrefixMark::always; }},
      {"prepends",
       [](auto& bpe) {
         bpe.normalizer = Steps{Normalization::prepend, Normalization::replace};
       }},
      {"replaces", [](auto& bpe) { bpe.normalizer = Steps{Normalization::replace}; }},
      {"replaces, tokens in normalized text",
       [](auto& bpe) {
         bpe.normalizer = Steps{Normalization::replace};
         bpe.normalized = {257, 258, 259};
       }},
      {"bytes",
       [](auto& bpe) {
         bpe = small_bpe({}, {"</s>", "<|user|>", "<|bot|>"});
       }},
      {"bytes after a space", [](auto& bpe) {
         bpe = small_bpe({}, {"</s>", "<|user|>", "<|bot|>"});
         bpe.add_prefix_space = true;
       }}};
  const std::string texts[] = {"Who?", "He.", "  more \n", "  none \n", "\n\na", " b"};
  std::vector<Message> messages;
  for (const std::string& text : texts) {
    messages.push_back({messages.size() % 2 == 0 ? Role::user : Role::assistant, text});
  }
  for (const auto& [name, change] : cases) {
    for (const bool strips : {false, true}) {
      BpeDescription bpe = characters_bpe();
      change(bpe);
      const auto first = static_cast<int32_t>(bpe.tokens.size()) - 3;
      if (strips) bpe.strip_right = {first, first + 1, first + 2};
      if (strips) bpe.strip_left = {first};
      const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
      for (const ChatForm& form : forms_of_published_models()) {
        SCOPED_TRACE(fmt::format("{}, strips {}, {}", name, strips, form.name));
        std::string text;
        for (size_t i = 0; i < messages.size(); ++i) {
          const bool is_reply = messages[i].role == Role::assistant;
          text += (i == 0     ? form.at_start[kUser]
                   : is_reply ? form.after[kUser][kAssistant]
                              : form.after[kAssistant][kUser])
                      ->before;
          if (is_reply) text += (i + 1 == messages.size() ? form.last : form.earlier).begin;
          text += messages[i].text;
          if (is_reply) text += form.reply_end;
        }
        const ChatTemplate chat(std::make_shared<const ChatForm>(form), tokenizer);
        ChatTokens out;
        chat.encode(messages, "here", out);
        EXPECT_EQ(out.tokens, tokenizer.encode_with_special(text));

        if (form.name == "channels") continue;  // special tokens of a continuation are text
        text.resize(text.size() - form.reply_end.size());  // without the end of the last reply
        const ChatTokens continued = chat.continued_prompt(
            std::span(messages).first(messages.size() - 1), form.last.begin + texts[5], "here");
        EXPECT_EQ(continued.tokens, tokenizer.encode_with_special(text));
        const auto own = std::ranges::count(continued.is_learned, true);
        EXPECT_GT(own, 0);
        const Ids prompt(continued.tokens.begin(), continued.tokens.end() - own);
        EXPECT_EQ(chat.prompt(std::span(messages).first(messages.size() - 1), "here"), prompt);
      }
    }
  }
}

TEST(ChatForm, LearnsTheSpecialTokensThatBeginReplies) {
  const BpeTokenizer tokenizer{BpeVocabulary(characters_bpe())};
  ChatForm form{"imported"};
  form.at_start[kUser] = {"<|user|>"};
  form.after[kUser][kAssistant] = {"A"};
  form.after[kAssistant][kUser] = {"<|user|>"};
  form.earlier.begin = "<|bot|>";
  form.last = {"<|user|>", "<|bot|>\n<|bot|>", {Strip::lines, Strip::none}, Thoughts::own};
  form.prompt_end = "<|user|>";
  form.reply_end = "</s>";
  form.earlier.thoughts = Thoughts::drop;
  const ChatTemplate chat(std::make_shared<const ChatForm>(form), tokenizer);
  const Message messages[] = {{Role::user, "W"},
                              {Role::assistant, "T</think>H"},
                              {Role::user, "W"},
                              {Role::assistant, "\nI"}};
  ChatTokens out;
  chat.encode(messages, "here", out);
  EXPECT_EQ(out.tokens,
            (Ids{258, 'W', 'A', 259, 'H', 257, 258, 'W', 'A', 258, 259, '\n', 259, 'I', 257}));
  const std::vector<bool> learned = {false, false, false, true, true, true, false, false,
                                     false, false, true,  true, true, true, true};
  EXPECT_EQ(out.is_learned, learned);
  EXPECT_EQ(chat.prompt({messages, 3}, "here"),
            (Ids{258, 'W', 'A', 259, 'H', 257, 258, 'W', 'A', 258}));
  EXPECT_EQ(chat.token_named_in("a <|user|> b"), "<|user|>");
  EXPECT_EQ(chat.token_named_in("a <think> b"), std::nullopt);

  const std::string thought = "<think>\nT\n</think>\n\nI";
  const Message thinks[] = {{Role::user, "W"}, {Role::assistant, thought}};
  chat.encode(thinks, "here", out);
  Ids expected = {258, 'W', 'A'};
  for (const char c : thought) expected.push_back(c);
  expected.push_back(257);
  EXPECT_EQ(out.tokens, expected) << "instead of what begins other replies";
  const Message odd[] = {{Role::user, "W"}, {Role::assistant, "T</think>I"}};
  expect_error([&] { chat.encode(odd, "x.jsonl:3", out); },
               {"x.jsonl:3, message 2: has </think>", "<think>\\nTHOUGHT\\n</think>\\n\\nTEXT"});
}

// As in Phi-3: the line end behind the token is part of it.
TEST(ChatForm, TokensAbsorbWhiteSpace) {
  BpeDescription bpe = characters_bpe();
  bpe.normalizer = {Normalization::prepend, Normalization::replace};
  bpe.strip_right = {257, 258, 259};
  const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
  const auto form = std::make_shared<const ChatForm>(forms_of_published_models()[0]);
  const Message messages[] = {{Role::user, "W"}, {Role::assistant, "\nH"}};
  ChatTokens out;
  ChatTemplate(form, tokenizer).encode(messages, "here", out);
  EXPECT_EQ(out.tokens, (Ids{258, 256, 'W', 257, 259, 256, 'H', 257}));
  EXPECT_EQ(out.is_learned,
            (std::vector<bool>{false, false, false, false, false, true, true, true}));
}

class ImportedChat : public HuggingFaceFolder {
 protected:
  ImportedChat() {
    write_bpe_folder(folder_ / "bpe", small_bpe({"u s"}, {"<|start|>", "<|endoftext|>"}));
    ModelConfig model = small_llama();
    model.vocab_size = 260;
    out_ = export_run(save_model("model", model, "bpe:" + (folder_ / "bpe")), "out");
    settings_ = parse_json(read_file(out_ / "tokenizer_config.json"), "settings");
    settings_["eos_token"] = {{"content", "<|endoftext|>"}};
    settings_["bos_token"] = "<|start|>";
  }

  /// Imports the model with these settings of its tokenizer.
  ImportReport import(const Json& settings, const std::string& to) const {
    write_file(out_ / "tokenizer_config.json", settings.dump());
    ImportOptions options;
    options.from = out_;
    options.to = folder_ / to;
    return import_model(options);
  }

  /// The settings that an export of an import has.
  Json exported(const ImportReport& report, const std::string& to) const {
    return parse_json(read_file(export_run(report.checkpoint, to) / "tokenizer_config.json"), to);
  }

  std::string jinja_ =
      "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] + eos_token }}"
      "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
  fs::path out_;
  Json settings_;
};

TEST_F(ImportedChat, IsTheTemplateOfItsModel) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  Json text = settings_, list = settings_;
  text["chat_template"] = jinja_;
  list["chat_template"] = Json::array(
      {{{"name", "tool_use"}, {"template", "no"}}, {{"name", "default"}, {"template", jinja_}}});
  for (const auto& [name, settings] : {std::pair("text", text), {"list", list}, {"file", text}}) {
    if (std::string(name) == "file")
      write_file(out_ / "chat_template.jinja", "{# a file #}" + jinja_);
    const ImportReport report = import(settings, name);
    EXPECT_THAT(report.notes, testing::IsEmpty());
    const auto form = checkpoint_chat(Checkpoint::open(report.checkpoint));
    ASSERT_NE(form, nullptr);
    EXPECT_EQ(form->problem, "");
    EXPECT_EQ(before(form->at_start, kUser), "<|start|>user: ");
    EXPECT_EQ(form->reply_end, "<|endoftext|>");
    const Json again = exported(report, std::string(name) + "_again");
    EXPECT_EQ(again.at("chat_template"),
              std::string(name) == "file" ? "{# a file #}" + jinja_ : jinja_);
    EXPECT_EQ(again.at("bos_token"), "<|start|>");
  }
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(import(settings_, "again").checkpoint))->jinja,
            "{# a file #}" + jinja_);
  write_file(out_ / "chat_template.jinja", "\xff");
  expect_error([&] { import(settings_, "bytes"); }, {"chat_template.jinja is not valid UTF-8"});
  fs::remove(out_ / "chat_template.jinja");
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(import(settings_, "none").checkpoint)), nullptr);
}

// Others split text beside special tokens in ways that depend on the version of transformers.
TEST_F(ImportedChat, IsOfSentencePieceModelsLikeLlamas) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  using Type = SentencePieceModel::PieceType;
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.byte_fallback = true;
  model.normalization.remove_extra_whitespaces = false;
  model.pieces = {{"<unk>", 0, Type::unknown},
                  {"<s>", 0, Type::control},
                  {"</s>", 0, Type::control},
                  {"▁", -1, Type::normal}};
  for (int byte = 0; byte < 256; ++byte) {
    model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, Type::byte});
  }
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"}) fs::remove(out_ / name);
  const Json settings = {{"tokenizer_class", "LlamaTokenizer"},
                         {"legacy", false},
                         {"bos_token", "<s>"},
                         {"eos_token", "</s>"},
                         {"chat_template", jinja_}};
  int runs = 0;
  const auto problem_with = [&](const char* key, const Json& value) {
    Json changed = settings;
    changed[key] = value;
    const ImportReport report = import(changed, fmt::format("run{}", runs++));
    return checkpoint_chat(Checkpoint::open(report.checkpoint))->problem;
  };
  write_file(out_ / "tokenizer.model", model.serialized());
  EXPECT_EQ(problem_with("legacy", false), "");
  EXPECT_THAT(problem_with("legacy", true), HasSubstr("write a tokenizer.json"));
  EXPECT_THAT(problem_with("legacy", nullptr), HasSubstr("write a tokenizer.json"));
  EXPECT_THAT(problem_with("tokenizer_class", "T5Tokenizer"), HasSubstr("write a tokenizer.json"));
  EXPECT_THAT(problem_with("add_prefix_space", false), HasSubstr("write a tokenizer.json"));
  EXPECT_THAT(problem_with("added_tokens_decoder", {{"2", {{"lstrip", true}}}}),
              HasSubstr("write a tokenizer.json"));
  EXPECT_THAT(problem_with("chat_template", " " + jinja_), HasSubstr("begin a conversation"));
  model.normalization.remove_extra_whitespaces = true;
  write_file(out_ / "tokenizer.model", model.serialized());
  EXPECT_THAT(problem_with("legacy", false), HasSubstr("write a tokenizer.json"));
}

TEST_F(ImportedChat, IsKeptWithoutPython) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  settings_["chat_template"] = jinja_;
  const ImportReport report = import(settings_, "run");
  // A template that an export wrote says all of itself.
  settings_["chat_template"] = plain_form().jinja;
  const ImportReport plain = import(settings_, "plain");
  EXPECT_THAT(plain.notes, testing::IsEmpty());
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(plain.checkpoint))->name, "plain");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_THAT(report.notes[0],
              testing::AllOf(HasSubstr("chat template cannot be used"), HasSubstr("needs python3"),
                             HasSubstr("python3-jinja2")));
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(report.checkpoint))->problem, report.notes[0]);
  EXPECT_EQ(exported(report, "again").at("chat_template"), jinja_);
}

}  // namespace
}  // namespace tessera
