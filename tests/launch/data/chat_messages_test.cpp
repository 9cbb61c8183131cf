#include "launch/data/datasets/chat_messages.h"

#include <gtest/gtest.h>

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

class PromptLines : public testing::Test {
 protected:
  /// The prompts of a file, each as its line, and its text or "role:text" for each message.
  std::vector<std::string> read(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
    std::vector<std::string> found;
    for_each_prompt(folder_ / name, [&](const PromptLine& line) {
      std::string prompt = std::to_string(line.number) + " " + std::string(line.text);
      for (const Message& message : line.messages) {
        prompt += std::string(kRoleNames[static_cast<size_t>(message.role)]) + ":" +
                  std::string(message.text) + ";";
      }
      found.push_back(prompt);
    });
    return found;
  }

  TestFolder folder_;
};

TEST_F(PromptLines, AreTextsOrMessages) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(read("p.txt", "a b\nc\n"), (Found{"1 a b", "2 c"}));
  EXPECT_EQ(read("p.tsv", "prompt\na b\nc\n"), (Found{"2 a b", "3 c"}));
  EXPECT_EQ(read("p.jsonl", "{\"prompt\": \"a\"}\n"), (Found{"1 a"}));
  EXPECT_EQ(
      read("p.jsonl",
           R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})"
           "\n"
           R"({"prompt": [{"content": "a b", "role": "assistant"}]})"),
      (Found{"1 system:s;user:u;", "2 assistant:a b;"}));
}

TEST_F(PromptLines, AreRefusedIfNotAllAreOfOneKind) {
  const std::string chat = "{\"prompt\": [{\"role\": \"user\", \"content\": \"u\"}]}\n";
  const struct {
    std::string text;
    std::initializer_list<std::string> facts;
  } cases[] = {
      {chat + "{\"prompt\": \"a\"}\n",
       {"p.jsonl:2", "must be a list of messages, because the first row has one, but is a string"}},
      {"{\"prompt\": \"a\"}\n" + chat, {"p.jsonl:2", "must be a string, but is an array"}},
      {chat + "{\"prompt\": []}\n", {"p.jsonl:2: there is no message"}},
      {chat + "{\"prompts\": []}\n", {"p.jsonl:2", "\"prompts\"", "no field \"prompt\""}},
      {chat + "{}\n", {"p.jsonl:2: there is no field \"prompt\""}},
      {chat + "{\"prompt\": [1]}\n", {"p.jsonl:2, message 1: must be an object", "a number"}},
      {"{\"prompt\": [{\"role\": \"tool\", \"content\": \"u\"}]}\n",
       {"p.jsonl:1, message 1: the role is \"tool\"", "system, user, assistant"}},
      {"{\"prompt\": [{\"role\": \"user\"}]}\n", {"message 1: there is no \"content\""}},
      {"{\"prompt\": [{\"role\": \"user\", \"content\": \"u\", \"name\": \"x\"}]}\n",
       {"message 1: has a field \"name\"", "only role and content"}},
  };
  for (const auto& [text, facts] : cases) {
    EXPECT_TRUE(names_all(error_of([&] { read("p.jsonl", text); }), facts)) << text;
  }
}

}  // namespace
}  // namespace tessera
