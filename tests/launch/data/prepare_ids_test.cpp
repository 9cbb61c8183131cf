#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/prepare/prepare.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using IdDocuments = std::vector<std::vector<int32_t>>;

class PrepareIds : public testing::Test {
 protected:
  PrepareOptions options(const std::vector<std::string>& inputs, int64_t vocab_size = 512) const {
    PrepareOptions options;
    options.tokenizer = "none";
    options.vocab_size = vocab_size;
    for (const std::string& name : inputs) options.input.inputs.push_back(folder_ / name);
    options.output = folder_ / "ids";
    options.overwrite = true;
    return options;
  }

  IdDocuments documents() const {
    const IndexedDataset dataset(folder_ / "ids");
    IdDocuments all;
    for (int64_t i = 0; i < dataset.num_documents(); ++i) {
      const Range range = dataset.document_tokens(i);
      dataset.read_tokens(
          range.begin, all.emplace_back(std::vector<int32_t>(static_cast<size_t>(range.size()))));
    }
    return all;
  }

  TestFolder folder_;
};

TEST_F(PrepareIds, EachLineBecomesADocument) {
  write_file(folder_ / "a.txt", "1 2 3\n\n \t\r\n  511\t0\r\n");
  write_file(folder_ / "b.txt", "7 7");  // without a line end
  const PrepareReport report = prepare(options({"a.txt", "b.txt"}));
  EXPECT_EQ(documents(), (IdDocuments{{1, 2, 3}, {511, 0}, {7, 7}}));
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.tokens, 7);
  EXPECT_EQ(report.token_type, TokenType::u16);

  const IndexedDataset dataset(folder_ / "ids");
  const std::optional<DatasetMetadata> metadata = read_metadata(dataset);
  ASSERT_TRUE(metadata.has_value());
  EXPECT_EQ(metadata->tokenizer.kind, "none");
  EXPECT_EQ(metadata->tokenizer.vocab_size, 512);
  EXPECT_EQ(metadata->bytes, 0);  // ids have no text
  const auto kept = tokenizer_of_dataset(folder_ / "ids");
  EXPECT_TRUE(is_none(*kept));
  EXPECT_EQ(kept->vocab_size(), 512);
}

TEST_F(PrepareIds, LargeVocabularyNeedsWideTokens) {
  write_file(folder_ / "a.txt", "99999\n");
  EXPECT_EQ(prepare(options({"a.txt"}, 100000)).token_type, TokenType::i32);
  EXPECT_EQ(documents(), (IdDocuments{{99999}}));
}

// Many pieces, and one line longer than a piece.
TEST_F(PrepareIds, OutputIsIndependentOfThreads) {
  std::string text;
  for (int i = 0; i < 700000; ++i)
    text += fmt::format("{}{}", i % 512, i % 1000 == 999 ? "\n" : " ");
  text += "\n";
  for (int i = 0; i < 700000; ++i) text += "5 ";
  write_file(folder_ / "a.txt", text);
  std::vector<std::string> found;
  for (const int threads : {1, 3}) {
    PrepareOptions many = options({"a.txt"});
    many.threads = threads;
    EXPECT_EQ(prepare(many).documents, 701);
    found.push_back(read_file(folder_ / "ids.bin") + read_file(folder_ / "ids.idx"));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(PrepareIds, NamesFileLineAndWord) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 2\n3 x7\n", "a.txt:2: word 2 is \"x7\""},
      {"1 2\n\n\n4\n-1 5\n", "a.txt:5: word 1 is \"-1\""},
      {"511 512", "a.txt:1: word 2 is \"512\""},
      {"{\"ids\": [1]}\n", "a.txt:1: word 1 is \"{\\\"ids\\\":\""}};
  for (const auto& [text, fact] : cases) {
    write_file(folder_ / "a.txt", text);
    EXPECT_TRUE(names_all(error_of([&] { prepare(options({"a.txt"})); }),
                          {folder_ / "", fact, "must be an id from 0 to 511"}));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "ids.bin"));
  }
  write_file(folder_ / "a.txt", std::string(3 << 20, '\n') + "x");  // in a later piece
  EXPECT_TRUE(names_all(error_of([&] { prepare(options({"a.txt"})); }),
                        {fmt::format("a.txt:{}: word 1", (3 << 20) + 1)}));
}

TEST_F(PrepareIds, RejectsOptionsOfText) {
  write_file(folder_ / "a.txt", "1\n");
  write_file(folder_ / "a.jsonl", "{}\n");
  write_file(folder_ / "blank.txt", " \n\n");
  const auto refused = [&](auto&& change, std::initializer_list<std::string> facts) {
    PrepareOptions changed = options({"a.txt"});
    change(changed);
    EXPECT_TRUE(names_all(error_of([&] { prepare(changed); }), facts));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "ids.bin"));
  };
  refused([](auto& o) { o.vocab_size.reset(); }, {"--tokenizer none needs --vocab-size"});
  refused([](auto& o) { o.tokenizer = "byte"; },
          {"--vocab-size is 512, but tokenizer byte has its own"});
  refused([](auto& o) { o.documents = Documents::file; }, {"each line of ids is a document"});
  refused([](auto& o) { o.sentences = Sentences::line; }, {"each line of ids is a document"});
  refused([](auto& o) { o.append_end = true; },
          {"--append-eod", "write the id that ends a document at the end of its line"});
  refused([&](auto& o) { o.input.inputs = {folder_ / "a.jsonl"}; },
          {"a.jsonl is JSON lines", "inputs are lines of ids"});
  refused([&](auto& o) { o.input.inputs = {folder_ / "blank.txt"}; },
          {"none of the 1 inputs has any ids"});
  refused([](auto& o) { o.vocab_size = int64_t{1} << 31; }, {"cannot have 2147483648 ids"});
  PrepareOptions lines = options({"a.txt"});
  lines.documents = Documents::line;
  EXPECT_EQ(prepare(lines).documents, 1);
}

}  // namespace
}  // namespace tessera
