#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/huggingface/import/chat/derive_chat_form.h"
#include "launch/huggingface/import/chat/import_chat.h"
#include "launch/huggingface/import/chat/jinja_renderer.h"
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

// Only the last reply has a place for thoughts, as in models that reason.
constexpr const char* kThoughtful =
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{% if loop.last and message['role'] == 'assistant' %}{{ '<think></think>' }}{% endif %}"
    "{{ message['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

const std::map<std::string, std::string> kTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
const std::vector<std::string> kNames = {"<s>",         "</s>",   "<|eot|>", "<|header|>",
                                         "<|/header|>", "<turn>", "</turn>"};

bool has_jinja() {
  try {
    render_chats("", {}, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

ChatForm form_of(const std::string& jinja, std::vector<std::string>& notes) {
  return derive_chat_form(
      [&](const std::vector<ChatProbe>& probes) {
        return render_chats(jinja, kTokens, probes).chats;
      },
      kNames, notes);
}

ChatForm form_of(const std::string& jinja) {
  std::vector<std::string> notes;
  ChatForm form = form_of(jinja, notes);
  EXPECT_THAT(notes, testing::IsEmpty());
  return form;
}

TEST(ChatForm, DescribesTheTemplatesOfPublishedModels) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  const ChatForm llama = form_of(kLlama);
  EXPECT_EQ(llama.at_start[kSystem], "<s><|header|>system<|/header|>\n\n");
  EXPECT_EQ(llama.after[kUser][kAssistant], "<|eot|><|header|>assistant<|/header|>\n\n");
  EXPECT_EQ(llama.after[kAssistant][kUser], "<|header|>user<|/header|>\n\n");
  EXPECT_EQ(llama.after[kUser][kUser], "<|eot|><|header|>user<|/header|>\n\n") << "any order";
  EXPECT_EQ(llama.reply_end, "<|eot|>");
  EXPECT_EQ(llama.trims, (std::array{true, true, true}));
  EXPECT_EQ(llama.tokens,
            (std::vector<std::string>{"<s>", "<|/header|>", "<|eot|>", "<|header|>"}));

  const ChatForm zephyr = form_of(kZephyr);
  EXPECT_EQ(zephyr.at_start[kUser], "<|user|>\n");
  EXPECT_EQ(zephyr.after[kSystem][kUser], "</s>\n<|user|>\n");
  EXPECT_EQ(zephyr.after[kUser][kAssistant], "</s>\n<|assistant|>\n");
  EXPECT_EQ(zephyr.after[kAssistant][kUser], "\n<|user|>\n");
  EXPECT_EQ(zephyr.reply_end, "</s>");
  EXPECT_EQ(zephyr.trims, (std::array{false, false, false}));

  const ChatForm mistral = form_of(kMistral);
  EXPECT_EQ(mistral.at_start[kUser], "<s>[INST] ");
  EXPECT_EQ(mistral.at_start[kSystem], std::nullopt);
  EXPECT_EQ(mistral.after[kUser][kAssistant], " [/INST]");
  EXPECT_EQ(mistral.after[kUser][kUser], std::nullopt);
  EXPECT_EQ(mistral.reply_begin, " ") << "which add_generation_prompt leaves to the model";
  EXPECT_EQ(mistral.after[kAssistant][kUser], "[INST] ");

  const ChatForm gemma = form_of(kGemma);
  EXPECT_EQ(gemma.at_start[kUser], "<s><turn>user\n");
  EXPECT_EQ(gemma.at_start[kSystem], "<s><turn>user\n");
  EXPECT_EQ(gemma.after[kSystem][kUser], "\n\n");
  EXPECT_EQ(gemma.after[kAssistant][kUser], "\n<turn>user\n");
  EXPECT_EQ(gemma.trims, (std::array{false, true, true}));

  for (const ChatForm* own : {&chatml_form(), &plain_form()}) {
    std::vector<std::string> notes;
    ChatForm derived = derive_chat_form(
        [&](const std::vector<ChatProbe>& probes) {
          return render_chats(own->jinja, kTokens, probes).chats;
        },
        {"<|im_start|>", "<|im_end|>", "</s>"}, notes);
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
      {kThoughtful, "depends on its place in the conversation"},
      {"{% for m in messages %}{{ m['role'] + ':' + m['content'] + '\n' }}{% endfor %}"
       "{% if add_generation_prompt %}reply:{% endif %}",
       "not what precedes other replies"},
      {"{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}", "no special token"},
      {"{% for m in messages %}{{ m['content'] | upper + eos_token }}{% endfor %}",
       "each message once, unchanged"},
      {"{% for m in messages %}{{ m['content'].lstrip() + eos_token }}{% endfor %}",
       "changes the white space"},
      {"{{ raise_exception('never') }}", "it fails for messages of the user and replies: never"},
      {"{{ open('/etc/passwd') }}", "'open' is undefined"},
      {"{{ ''.__class__.__mro__ }}", "it fails for"},
      {"{% for m in messages %}", "it is no template"}};
  for (const auto& [jinja, fact] : kBad) {
    SCOPED_TRACE(jinja);
    expect_error([&] { form_of(jinja); }, {fact});
  }
  EXPECT_TRUE(render_chats("{{ strftime_now('%Y') }}", {}, {{}}).has_date);
}

TEST(ChatForm, PlacesSpecialTokensAndReplies) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"u s", "us e", "use r"}, {"<s>", "</s>"});
  const auto text = [&](std::string_view t) { return tokenizer.encode(t); };
  const Ids start = tokenizer.encode_with_special("<s>"),
            end = tokenizer.encode_with_special("</s>");
  ASSERT_EQ(start.size() + end.size(), 2u);
  auto form = std::make_shared<ChatForm>();
  form->name = "imported";
  form->at_start[kUser] = "<s>[INST] ";
  form->after[kUser][kAssistant] = " [/INST]";
  form->after[kAssistant][kUser] = "<s>[INST] ";
  form->reply_begin = " ";
  form->reply_end = " </s>";
  form->trims[kUser] = true;
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

// As in DeepSeek's models that reason.
TEST(ChatForm, NotesTemplatesThatChangeThoughts) {
  if (!has_jinja()) GTEST_SKIP() << "python3 has no jinja2";
  std::vector<std::string> notes;
  const ChatForm form = form_of(
      "{% for m in messages %}{% set text = m['content'] %}"
      "{% if m['role'] == 'assistant' and '</think>' in text %}"
      "{% set text = text.split('</think>')[-1] %}{% endif %}"
      "{{ m['role'] + ':' + text + eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
      notes);
  EXPECT_EQ(form.after[kUser][kAssistant], "</s>assistant:");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("changes messages with thoughts, <think>...</think>"));
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
  zephyr.at_start[kUser] = "<|user|>\n";
  zephyr.after[kUser][kAssistant] = "</s>\n<|bot|>\n";
  zephyr.after[kAssistant][kUser] = "\n<|user|>\n";
  zephyr.reply_end = "</s>";
  ChatForm mistral{"mistral"};
  mistral.at_start[kUser] = "<|user|> ";
  mistral.after[kUser][kAssistant] = " <|bot|>";
  mistral.after[kAssistant][kUser] = "<|user|> ";
  mistral.reply_begin = " ";
  mistral.reply_end = " </s>";
  ChatForm llama = mistral;
  llama.name = "llama";
  llama.after[kUser][kAssistant] = " [/INST]";
  ChatForm plain = plain_form();
  plain.reply_end = "</s>";
  return {zephyr, mistral, llama, plain};
}

// Special tokens are recognized, and the same text is encoded as a whole.
TEST(ChatForm, HasTheTokensOfTheWholeText) {
  struct Case {
    const char* name;
    std::function<void(BpeDescription&)> change;
  };
  using Steps = std::vector<Normalization>;
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
          text += *(i == 0     ? form.at_start[kUser]
                    : is_reply ? form.after[kUser][kAssistant]
                               : form.after[kAssistant][kUser]);
          if (is_reply) text += form.reply_begin;
          text += messages[i].text;
          if (is_reply) text += form.reply_end;
        }
        const ChatTemplate chat(std::make_shared<const ChatForm>(form), tokenizer);
        ChatTokens out;
        chat.encode(messages, "here", out);
        EXPECT_EQ(out.tokens, tokenizer.encode_with_special(text));

        text.resize(text.size() - form.reply_end.size());  // without the end of the last reply
        const ChatTokens continued = chat.continued_prompt(
            std::span(messages).first(messages.size() - 1), form.reply_begin + texts[5], "here");
        EXPECT_EQ(continued.tokens, tokenizer.encode_with_special(text));
        const auto own = std::ranges::count(continued.is_learned, true);
        EXPECT_GT(own, 0);
        const Ids prompt(continued.tokens.begin(), continued.tokens.end() - own);
        EXPECT_EQ(chat.prompt(std::span(messages).first(messages.size() - 1), "here"), prompt);
      }
    }
  }
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
    EXPECT_EQ(form->at_start[kUser], "<|start|>user: ");
    EXPECT_EQ(form->reply_end, "<|endoftext|>");
    const Json again = exported(report, std::string(name) + "_again");
    EXPECT_EQ(again.at("chat_template"),
              std::string(name) == "file" ? "{# a file #}" + jinja_ : jinja_);
    EXPECT_EQ(again.at("bos_token"), "<|start|>");
  }
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(import(settings_, "again").checkpoint))->jinja,
            "{# a file #}" + jinja_);
  fs::remove(out_ / "chat_template.jinja");
  EXPECT_EQ(checkpoint_chat(Checkpoint::open(import(settings_, "none").checkpoint)), nullptr);
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
