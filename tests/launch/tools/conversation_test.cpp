#include "launch/tools/generate/conversation.h"

#include <gtest/gtest.h>

#include <memory>

#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

class ConversationTest : public testing::Test {
 protected:
  ConversationTest() { config_.vocab_size = tokenizer_.vocab_size(); }

  Conversation start(int64_t seq_length, int64_t reply_tokens) {
    config_.seq_length = seq_length;
    return {config_, tokenizer_, {form_, "Be brief."}, reply_tokens};
  }

  /// The tokens of plain messages, in turn of the user and the assistant, after the system's.
  std::vector<int32_t> tokens_of(std::initializer_list<std::string_view> texts) const {
    std::vector<Message> messages = {{Role::system, "Be brief."}};
    for (const std::string_view text : texts) {
      const bool is_reply = messages.back().role == Role::user;
      messages.push_back({is_reply ? Role::assistant : Role::user, text});
    }
    return form_.prompt(messages, "test");
  }

  ByteTokenizer tokenizer_;
  ModelConfig config_;
  ChatTemplate form_{std::make_shared<const ChatForm>(plain_form()), tokenizer_};
};

TEST_F(ConversationTest, HasAllThatWasSaid) {
  Conversation chat = start(200, 10);
  EXPECT_EQ(chat.ask("One?"), tokens_of({"One?"}));
  chat.add_reply("1");
  EXPECT_EQ(chat.ask("Two?"), tokens_of({"One?", "1", "Two?"}));
  chat.add_reply("");  // forgotten with its message
  EXPECT_EQ(chat.ask("Three?"), tokens_of({"One?", "1", "Three?"}));
  EXPECT_EQ(chat.forgotten(), 0);
}

TEST_F(ConversationTest, LeavesOutWhatBeginsReplies) {
  auto form = std::make_shared<ChatForm>(plain_form());
  form->earlier.begin = form->last.begin = "final: ";
  form_ = ChatTemplate(form, tokenizer_);
  Conversation chat = start(200, 10);
  chat.ask("One?");
  chat.add_reply("final: 1");
  EXPECT_EQ(chat.ask("Two?"), tokens_of({"One?", "1", "Two?"}));
}

TEST_F(ConversationTest, BeginsAgain) {
  Conversation chat = start(200, 10);
  chat.ask("One?");
  chat.add_reply("1");
  chat.reset();
  EXPECT_EQ(chat.ask("Two?"), tokens_of({"Two?"}));
  chat.add_reply("2");
  chat.begin("Be kind.");
  const Message kind[] = {{Role::system, "Be kind."}, {Role::user, "Two?"}};
  EXPECT_EQ(chat.ask("Two?"), form_.prompt(kind, "test"));
  chat.begin(std::nullopt);
  EXPECT_EQ(chat.ask("Two?"), form_.prompt({kind + 1, 1}, "test"));
  EXPECT_EQ(chat.forgotten(), 0);
}

TEST_F(ConversationTest, ForgetsTheOldestMessagesAndNeverTheSystems) {
  const auto length = std::ssize(tokens_of({"One?", "1", "Two?", "2", "Six?"}));
  Conversation chat = start(length + 4, 4);
  for (const char* message : {"One?", "Two?"}) {
    chat.ask(message);
    chat.add_reply(message[0] == 'O' ? "1" : "2");
  }
  EXPECT_EQ(chat.ask("Six?"), tokens_of({"One?", "1", "Two?", "2", "Six?"}));
  chat.add_reply("6");
  EXPECT_EQ(chat.ask("Ten?"), tokens_of({"Two?", "2", "Six?", "6", "Ten?"}));
  EXPECT_EQ(chat.forgotten(), 1);
  chat.add_reply("10");
  EXPECT_EQ(chat.ask(std::string(30, 'x')), tokens_of({std::string(30, 'x')}));
  EXPECT_EQ(chat.forgotten(), 4);
}

TEST_F(ConversationTest, SurvivesMessagesThatAreTooLong) {
  Conversation chat = start(100, 1000);
  chat.ask("One?");
  chat.add_reply("1");
  test::expect_error([&] { chat.ask(std::string(60, 'x')); },
                     {"chat: the message has ", "but the model sees 100 at once",
                      "of which 25 are for the reply: shorten it"});
  EXPECT_EQ(chat.ask("Two?"), tokens_of({"One?", "1", "Two?"}));
  EXPECT_EQ(chat.forgotten(), 0);
}

}  // namespace
}  // namespace tessera
