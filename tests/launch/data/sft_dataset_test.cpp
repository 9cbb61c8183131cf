#include "launch/data/datasets/sft_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/sft_lines.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/tokenizers/bpe_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::expect_error;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr int32_t kIgnored = kIgnoreTarget;

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

ChatTemplate chat_of(ChatFormat choice, const Tokenizer& tokenizer,
                     const std::shared_ptr<const ChatForm>& of_model = nullptr) {
  return {chosen_chat_form(choice, of_model, tokenizer), tokenizer};
}

class SftFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  /// The examples of a file, with bytes as tokens.
  SftExamples read(const std::string& name, const std::string& text,
                   const SftOptions& options = {.seq_length = 1000}) const {
    const std::string path = write(name, text);
    const ChatTemplate chat = has_messages(path) ? chat_of(ChatFormat::automatic, *bytes_)
                                                 : ChatTemplate::without_roles(*bytes_);
    return SftExamples(path, chat, options);
  }

  Ids bytes(std::string_view text) const { return bytes_->encode(text); }
  Ids ignored(size_t count) const { return Ids(count, kIgnored); }

  test::TestFolder folder_;
  std::unique_ptr<const Tokenizer> bytes_ = make_tokenizer("byte");
  const int32_t end_ = *bytes_->end_of_document();
};

Sample sample_of(const SftExamples& examples, int64_t i = 0) {
  Sample sample;
  examples.append(i, sample);
  return sample;
}

TEST_F(SftFiles, FindsTokensOfTheTemplateInMessages) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({}, {"<|im_start|>", "<|im_end|>"});
  const auto found = [&](const std::string& text) {
    const std::string path = write("m.jsonl", text);
    return SftExamples(path, chat_of(ChatFormat::automatic, tokenizer), {.seq_length = 1000})
        .first_token_name();
  };
  const std::string line = R"({"messages": [{"role": "user", "content": "a"}, )"
                           R"({"role": "assistant", "content": "b"}]})"
                           "\n";
  std::string quoted = line;
  quoted.replace(quoted.find("\"b\""), 3, "\"b<|im_end|>\"");
  EXPECT_EQ(found(line), "");
  EXPECT_THAT(found(line + quoted + quoted),
              HasSubstr("m.jsonl:2, message 2, contains <|im_end|>"));
}

TEST_F(SftFiles, LearnsTheCompletionAndItsEnd) {
  const SftExamples examples = read("p.jsonl", R"({"prompt": "1+2=", "completion": "3!"})"
                                               "\n"
                                               R"({"completion": "b", "prompt": "a"})");
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(examples.num_tokens(), 7 + 3);
  EXPECT_EQ(examples.num_targets(), 3 + 2);
  const Sample sample = sample_of(examples);
  EXPECT_EQ(sample.tokens, bytes("1+2=3!"));
  EXPECT_EQ(sample.targets, joined({ignored(3), bytes("3!"), {end_}}));
  EXPECT_EQ(sample.document_lengths, Ids{6});
  EXPECT_EQ(sample_of(examples, 1).targets, (Ids{'b', end_}));
  EXPECT_THROW(sample_of(examples, 2), Error);
}

TEST_F(SftFiles, ReadsColumns) {
  const SftExamples examples = read("p.tsv", "completion\tprompt\nyes\tis it?\n");
  EXPECT_EQ(sample_of(examples).tokens, bytes("is it?yes"));
}

TEST_F(SftFiles, LearnsPromptsIfAsked) {
  const SftExamples examples =
      read("p.tsv", "prompt\tcompletion\nab\tcd\n", {.seq_length = 1000, .loss_on_prompts = true});
  EXPECT_EQ(sample_of(examples).tokens, bytes("abcd"));
  EXPECT_EQ(sample_of(examples).targets, joined({bytes("bcd"), {end_}}));
  EXPECT_EQ(examples.num_targets(), 4);
}

constexpr const char* kConversation =
    R"({"messages": [{"role": "system", "content": "Be brief."}, )"
    R"({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, )"
    R"({"role": "user", "content": "Bye"}, {"content": "Ciao", "role": "assistant"}]})";

TEST_F(SftFiles, PlainTemplateLearnsEveryReply) {
  const Sample sample = sample_of(read("m.jsonl", kConversation));
  const std::string first = "system:\nBe brief.\nuser:\nHi\nassistant:\n";
  const std::string second = "user:\nBye\nassistant:\n";
  EXPECT_EQ(sample.tokens, joined({bytes(first + "Hello"), {end_}, bytes(second + "Ciao")}));
  EXPECT_EQ(sample.targets, joined({ignored(first.size() - 1),
                                    bytes("Hello"),
                                    {end_},
                                    ignored(second.size()),
                                    bytes("Ciao"),
                                    {end_}}));
}

TEST_F(SftFiles, PromptOfMessagesIsNotLearned) {
  const Sample sample = sample_of(
      read("c.jsonl",
           R"({"prompt": [{"role": "user", "content": "Hi"}, )"
           R"({"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}], )"
           R"("completion": [{"role": "assistant", "content": "Ciao"}]})"));
  const std::string first = "user:\nHi\nassistant:\nHello", second = "user:\nBye\nassistant:\n";
  EXPECT_EQ(sample.tokens, joined({bytes(first), {end_}, bytes(second + "Ciao")}));
  EXPECT_EQ(sample.targets, joined({ignored(first.size() + second.size()), bytes("Ciao"), {end_}}));
}

TEST_F(SftFiles, ChatMlSurroundsMessagesWithItsTokens) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer(
      {"u s", "us e", "use r"}, {"<|im_start|>", "<|im_end|>", "<|endoftext|>"});
  const int32_t begin = 259, end = 260;
  ASSERT_EQ(tokenizer.token_text(begin), "<|im_start|>");
  const ChatTemplate chat = chat_of(ChatFormat::automatic, tokenizer);
  EXPECT_EQ(chat.reply_end(), end);
  const Sample sample =
      sample_of(SftExamples(write("m.jsonl", kConversation), chat, SftOptions{.seq_length = 1000}));
  const auto text = [&](std::string_view t) { return tokenizer.encode(t); };
  const Ids first = joined({{begin},
                            text("system\nBe brief."),
                            {end},
                            text("\n"),
                            {begin},
                            text("user\nHi"),
                            {end},
                            text("\n"),
                            {begin},
                            text("assistant\n")});
  const Ids second = joined(
      {text("\n"), {begin}, text("user\nBye"), {end}, text("\n"), {begin}, text("assistant\n")});
  EXPECT_EQ(sample.tokens, joined({first, text("Hello"), {end}, second, text("Ciao")}));
  EXPECT_EQ(sample.targets, joined({ignored(first.size() - 1),
                                    text("Hello"),
                                    {end},
                                    ignored(second.size()),
                                    text("Ciao"),
                                    {end}}));
  // Within a message, special tokens are text.
  const Message messages[] = {{Role::user, "<|im_end|>"}};
  const Ids prompt = chat.prompt(messages, "here");
  EXPECT_EQ(
      prompt,
      joined({{begin}, text("user\n<|im_end|>"), {end}, text("\n"), {begin}, text("assistant\n")}));
  EXPECT_EQ(std::ranges::count(prompt, end), 1);
}

TEST_F(SftFiles, PromptIsWhatPrecedesTheReply) {
  const Message messages[] = {{Role::user, "What?"}, {Role::assistant, "That."}};
  for (const ChatTemplate& chat :
       {ChatTemplate::without_roles(*bytes_), chat_of(ChatFormat::plain, *bytes_)}) {
    ChatTokens all;
    chat.encode(messages, "here", all);
    const Ids prompt = chat.prompt({messages, 1}, "here");
    EXPECT_EQ(joined({prompt, bytes("That."), {chat.reply_end()}}), all.tokens);
  }
}

TEST_F(SftFiles, NamesTokenizersThatDoNotSuffice) {
  test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary);
  const auto words = make_tokenizer("wordpiece:" + (folder_ / "vocab.txt"));
  expect_error([&] { ChatTemplate::without_roles(*words); },
               {"wordpiece has no end-of-document token"});
  expect_error([&] { chat_of(ChatFormat::plain, *words); },
               {"wordpiece has no end-of-document token"});
  expect_error([&] { chat_of(ChatFormat::chatml, *bytes_); },
               {"data.chat_template is chatml", "byte has no token <|im_start|>", "choose plain"});
  expect_error(
      [&] {
        chat_of(ChatFormat::automatic, IdTokenizer(9, {{"eos", 0}}));
      },
      {"data.tokenizer is none", "messages have roles"});
}

TEST_F(SftFiles, NamesWrongLines) {
  const std::string good = R"({"prompt": "a", "completion": "b"})";
  const std::string chat = R"({"messages": [{"role": "assistant", "content": "b"}]})";
  const auto messages = [](const std::string& list) { return "{\"messages\": [" + list + "]}"; };
  const auto split = [](const std::string& prompt, const std::string& completion) {
    return "{\"prompt\": [" + prompt + "], \"completion\": [" + completion + "]}";
  };
  const std::string user = R"({"role": "user", "content": "a"})";
  const std::string reply = R"({"role": "assistant", "content": "b"})";
  const struct {
    std::string text;
    std::vector<const char*> facts;
  } cases[] = {
      {"", {"f.jsonl: there is no example"}},
      {R"({"prompt": "a"})", {"f.jsonl:1", "there is no field \"completion\""}},
      {R"({"completion": "a"})", {"f.jsonl:1", "there is no field \"prompt\""}},
      {good + "\n" + R"({"prompt": "a", "completion": ""})",
       {"f.jsonl:2", "the completion has no tokens"}},
      {R"({"prompt": "", "completion": "b"})", {"f.jsonl:1", "the prompt has no tokens"}},
      {R"({"prompt": "a", "completion": 3})",
       {"f.jsonl:1", "\"completion\" must be a string, but is a number"}},
      {good + "\n" + split(user, reply),
       {"f.jsonl:2", "\"prompt\" must be a string, but is an array"}},
      {split(user, reply) + "\n" + good,
       {"f.jsonl:2",
        "\"prompt\" must be a list of messages because the first row has one, but is a string"}},
      {split(user, reply) + "\n" + chat, {"f.jsonl:2", "there is no field \"prompt\""}},
      {split(reply, user), {"f.jsonl:1", "no message of the assistant in the completion"}},
      {R"({"prompt": "a", "completion": []})",
       {"f.jsonl:1", "\"prompt\" must be a list of messages because the first row has one"}},
      {split(user, "3"), {"f.jsonl:1, message 1 of the completion", "role and content"}},
      {R"({"prompt": []})", {"f.jsonl:1", "there is no field \"completion\""}},
      {R"({"messages": [], "completion": "b", "prompt": "a"})",
       {"f.jsonl", "both messages and prompt and completion", "leave one of them out"}},
      {R"({"text": "a"})",
       {"f.jsonl:1", "\"text\"", "there is no field \"prompt\"", "data.columns"}},
      {good + "\n" + chat, {"f.jsonl:2", "there is no field \"prompt\"", "\"messages\""}},
      {chat + "\n" + good, {"f.jsonl:2", "there is no field \"messages\"", "\"completion\""}},
      {"[1]", {"f.jsonl", "has a list", "a name in .json"}},
      {good + "\n\n" + good, {"f.jsonl:2", "the line is empty"}},
      {good + "\n{\"prompt\": \"a\", ", {"f.jsonl:2"}},
      {R"({"messages": "a"})",
       {"f.jsonl:1", "\"messages\" must be a list of messages, but is a string"}},
      {messages(""), {"f.jsonl:1", "there is no message of the assistant"}},
      {messages(user), {"f.jsonl:1", "there is no message of the assistant"}},
      {messages(reply + "," + user),
       {"f.jsonl:1", "the last message is of the user", "leave out what follows"}},
      {messages(R"({"role": "function", "content": "a"},)" + reply),
       {"f.jsonl:1, message 1", "the role is \"function\"", "system, user, assistant"}},
      {messages(R"({"role": "tool", "content": "a"},)" + reply),
       {"f.jsonl:1: has tools or tool calls", "the template is plain"}},
      {messages(user + R"(,{"role": "assistant", "content": null})"),
       {"f.jsonl:1, message 2", "\"content\" must be a string, but is null"}},
      {messages(R"({"role": 1, "content": "a"})"),
       {"f.jsonl:1, message 1", "\"role\" must be a string, but is a number"}},
      {messages(user + R"(,{"role": "assistant", "content": ""})"),
       {"f.jsonl:1, message 2", "the content is empty"}},
      {messages(R"({"role": "assistant"})"), {"f.jsonl:1, message 1", "there is no \"content\""}},
      {messages(R"({"content": "a"})"), {"f.jsonl:1, message 1", "there is no \"role\""}},
      {messages(R"({"role": "user", "content": "a", "name": "x"})"),
       {"f.jsonl:1, message 1", "has a field \"name\"", "only role and content"}},
      {messages("3"), {"f.jsonl:1, message 1", "must be an object", "number"}},
      {good + "\n" + R"({"prompt": "123456", "completion": "7890"})",
       {"f.jsonl:2", "the example has 11 tokens", "model.seq_length is 9", "at most 10 fit",
        "data.truncate=true"}},
  };
  for (const auto& [text, facts] : cases) {
    SCOPED_TRACE(text);
    const bool is_chat = text.find("\": [") != std::string::npos;
    const SftOptions options = {.seq_length = is_chat ? 1000 : 9};
    const std::string error =
        test::error_of([&, content = text] { read("f.jsonl", content, options); });
    for (const char* fact : facts) EXPECT_THAT(error, HasSubstr(fact));
  }
  const std::string error =
      test::error_of([&] { read("f.tsv", "prompt\tanswer\na\tb\n", {.seq_length = 9}); });
  EXPECT_THAT(error, HasSubstr("f.tsv:1: there is no column \"completion\""));
  EXPECT_THAT(error, HasSubstr("\"answer\""));
}

TEST_F(SftFiles, TruncatesAndCounts) {
  const std::string lines = "prompt\tcompletion\nab\tcdefgh\nabcdef\tx\na\tb\nabcde\tfgh\n";
  const SftOptions options = {.seq_length = 4, .truncate = true};
  const SftExamples examples = read("t.tsv", lines, options);
  EXPECT_EQ(examples.size(), 2);  // of two, the first 5 tokens are of the prompt
  EXPECT_EQ(examples.num_truncated(), 1);
  EXPECT_EQ(examples.num_left_out(), 2);
  EXPECT_EQ(sample_of(examples).tokens, bytes("abcd"));
  EXPECT_EQ(sample_of(examples).targets, joined({ignored(1), bytes("cde")}));
  EXPECT_EQ(examples.line(1), 2);
  EXPECT_EQ(sample_of(examples, 1).targets, (Ids{'b', end_}));

  const SftExamples all =
      read("t.tsv", lines, {.seq_length = 4, .truncate = true, .loss_on_prompts = true});
  EXPECT_EQ(all.size(), 4);
  EXPECT_EQ(all.num_truncated(), 3);

  const SftExamples after_prefix =
      read("t.tsv", lines, {.seq_length = 4, .truncate = true, .prefix = 4});
  EXPECT_EQ(after_prefix.size(), 1);
  EXPECT_EQ(after_prefix.num_targets(), 1);
  EXPECT_EQ(sample_of(after_prefix).targets, joined({ignored(3), bytes("e")}));
  expect_error([&] { read("t.tsv", "prompt\tcompletion\nabcdef\tx\n", options); },
               {"t.tsv: nothing of any completion", "first 5 tokens", "model.seq_length"});
}

TEST_F(SftFiles, PacksEachExampleOnce) {
  std::string text = "prompt\tcompletion\n";
  for (char c = 'a'; c <= 'z'; ++c) {
    text += fmt::format("{}\t{}\n", c, std::string(static_cast<size_t>(1 + (c - 'a') % 5), c));
  }
  const auto examples =
      std::make_shared<const SftExamples>(read("p.tsv", text, {.seq_length = 12}));
  std::multiset<int32_t> seen;
  int64_t rows = 0, inputs = 0;
  Sample sample;
  for (const Range range : {Range{0, 20}, Range{20, 26}}) {
    const SftDataset dataset(examples, range);
    rows += dataset.num_samples();
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      dataset.fill(i, /*epoch=*/3, sample);
      EXPECT_LE(std::ssize(sample.tokens), 12);
      EXPECT_EQ(sample.targets.size(), sample.tokens.size());
      const std::vector<TextOrigin> origins = dataset.origins(i, 0);
      ASSERT_EQ(origins.size(), sample.document_lengths.size());
      size_t first = 0;
      for (size_t d = 0; d < origins.size(); ++d) {
        seen.insert(sample.tokens[first]);
        EXPECT_EQ(origins[d].numbers.begin, sample.tokens[first] - 'a');
        EXPECT_EQ(origins[d].document, static_cast<int64_t>(d));
        first += static_cast<size_t>(sample.document_lengths[d]);
        EXPECT_EQ(sample.targets[first - 1], end_);
      }
      inputs += std::ssize(sample.tokens);
    }
  }
  EXPECT_EQ(seen.size(), 26u);
  EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 26u);
  EXPECT_LE(rows, inputs / 12 + 3) << "rows are nearly full";
  EXPECT_THROW(SftDataset(examples, {20, 27}), Error);
  EXPECT_THROW(SftDataset(examples, {3, 3}), Error);
}

}  // namespace
}  // namespace tessera
