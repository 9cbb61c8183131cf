#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <unordered_set>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/prepare/duplicate_finder.h"
#include "launch/data/prepare/hash_set.h"
#include "launch/data/prepare/prepare.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Texts = std::vector<std::string>;

/// The documents of a dataset of bytes.
Texts texts_of(const std::string& prefix) {
  const IndexedDataset dataset(prefix);
  Texts texts;
  for (int64_t i = 0; i < dataset.num_documents(); ++i) {
    const Range range = dataset.document_tokens(i);
    std::vector<int32_t> tokens(static_cast<size_t>(range.size()));
    dataset.read_tokens(range.begin, tokens);
    texts.push_back(ByteTokenizer().decode(tokens));
  }
  return texts;
}

std::string words(std::mt19937& random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{}w{}", i == 0 ? "" : " ", random() % 5000);
  return text;
}

TEST(HashSet, FindsEveryHashAgain) {
  std::mt19937_64 random(1);
  HashSet set;
  std::vector<Hash128> hashes = {{}, {0, 2}, {~uint64_t{0}, ~uint64_t{0}}};
  while (hashes.size() < 50000) hashes.push_back({random(), random() % 1000 * 8});  // they collide
  for (const Hash128& hash : hashes) EXPECT_TRUE(set.insert(hash));
  for (const Hash128& hash : hashes) EXPECT_FALSE(set.insert(hash));
}

// The estimate of Jaccard's similarity and the number of pairs that share a band, against sets of
// shingles.
TEST(MinHash, EstimatesSimilarityOfShingles) {
  const MinHash hash(0.8);
  EXPECT_LE(hash.size(), 128u);
  std::mt19937 random(2);
  for (const size_t changed : {0, 3, 10, 40, 150}) {
    Texts one, other;
    for (int i = 0; i < 400; ++i) one.push_back(words(random, 1));
    other = one;
    for (size_t i = 0; i < changed; ++i) other[random() % other.size()] = words(random, 1);
    const auto shingles = [](const Texts& list) {
      std::set<Texts> set;
      for (size_t i = 0; i + 5 <= list.size(); ++i) {
        set.emplace(list.begin() + static_cast<ptrdiff_t>(i),
                    list.begin() + static_cast<ptrdiff_t>(i + 5));
      }
      return set;
    };
    const std::set<Texts> a = shingles(one), b = shingles(other);
    std::vector<Texts> both;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    const auto common = static_cast<double>(both.size());
    const double similarity = common / (static_cast<double>(a.size() + b.size()) - common);

    std::vector<uint32_t> first(hash.size(), MinHash::kNone), second = first;
    hash.add(fmt::format("  {}", fmt::join(one, " \n\t")), first);
    hash.add(fmt::format("{} ", fmt::join(other, " ")), second);
    double equal = 0;
    for (size_t i = 0; i < hash.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
    // Three standard deviations.
    EXPECT_NEAR(equal / static_cast<double>(hash.size()), similarity, 0.15) << changed;
    EXPECT_EQ(first == second, changed == 0);
  }
  EXPECT_TRUE(names_all(error_of([] { MinHash(0.2); }), {"0.2", "from 0.3 to 1"}));
}

TEST(MinHash, FindsMostPairsAtEveryThreshold) {
  for (const double threshold : {0.3, 0.5, 0.8, 0.95, 1.0}) {
    const MinHash hash(threshold);
    const double missed = std::pow(1 - std::pow(threshold, static_cast<double>(hash.rows())),
                                   static_cast<double>(hash.bands()));
    EXPECT_LE(missed, 0.05) << threshold;
  }
}

class PrepareDuplicates : public ::testing::Test {
 protected:
  PrepareReport prepare_texts(PrepareOptions options, const std::string& name = "set") const {
    options.output = folder / name;
    options.overwrite = true;
    return prepare(options);
  }
  std::string files(const std::string& name = "set") const {
    return read_file(folder / name + ".bin") + read_file(folder / name + ".idx") +
           read_file(folder / name + ".meta.json");
  }

  const TestFolder folder;
};

TEST_F(PrepareDuplicates, DropsLaterOnesWithAnyThreads) {
  // Lines, many of them equal, in several parts.
  std::mt19937 random(3);
  std::string text;
  Texts unique;
  std::unordered_set<std::string> seen;
  int64_t lines = 0;
  for (; text.size() < size_t{3} << 20; ++lines) {
    const std::string line = fmt::format("line {} {}", random() % 20000, std::string(90, 'x'));
    text += line + "\n";
    if (seen.insert(line).second) unique.push_back(line);
  }
  write_file(folder / "a", text);
  for (const int threads : {1, 3}) {
    PrepareOptions options = {
        .input = {.inputs = {folder / "a"}}, .documents = Documents::line, .threads = threads};
    const PrepareReport counted = prepare_texts(options);
    EXPECT_EQ(counted.documents, lines);
    EXPECT_EQ(counted.duplicates, lines - std::ssize(unique));
    options.drop_duplicates = true;
    const PrepareReport dropped = prepare_texts(options);
    EXPECT_EQ(dropped.documents, std::ssize(unique));
    EXPECT_EQ(dropped.duplicates, counted.duplicates);
    EXPECT_EQ(dropped.bytes, dropped.tokens) << "only of the documents that are left";
    EXPECT_EQ(dropped.bytes_read, counted.bytes);
    EXPECT_TRUE(texts_of(folder / "set") == unique);
  }
  const auto metadata = read_metadata(IndexedDataset(folder / "set"));
  EXPECT_TRUE(metadata->duplicates_dropped);
  EXPECT_EQ(metadata->duplicates, lines - std::ssize(unique));
}

// A text longer than a part is the same in a file and in a JSON line, and with other text before.
TEST_F(PrepareDuplicates, RecognizesLongTextInAnyFile) {
  std::mt19937 random(4);
  std::string text;
  while (text.size() < size_t{3} << 19) text += words(random, 100) + "\n";
  std::string other = text;
  other[other.size() / 2] ^= 1;
  write_file(folder / "a", text);
  write_file(folder / "b.jsonl",
             Json{{"text", "short"}}.dump() + "\n" + Json{{"text", text}}.dump() + "\n" +
                 Json{{"text", other}}.dump() + "\n" + Json{{"text", "short"}}.dump() + "\n");
  for (const Sentences sentences : {Sentences::none, Sentences::line}) {
    for (const int threads : {1, 3}) {
      if (sentences == Sentences::line && threads == 1) continue;
      const PrepareReport report = prepare_texts(
          {.input = {.inputs = {folder / "a", folder / "a", folder / "b.jsonl", folder / "a"}},
           .sentences = sentences,
           .append_end = true,
           .drop_duplicates = true,
           .threads = threads});
      EXPECT_EQ(report.duplicates, 4);
      EXPECT_EQ(report.documents, 3);
      if (sentences == Sentences::none) {
        EXPECT_TRUE(texts_of(folder / "set") == (Texts{text, "short", other}));
      }
    }
  }
}

TEST_F(PrepareDuplicates, ComparesIdsWithoutTokenizer) {
  write_file(folder / "ids", "1 2 3\n 1  2 3 \n\n1 2\n");
  const PrepareReport report = prepare_texts({.tokenizer = "none",
                                              .vocab_size = 10,
                                              .input = {.inputs = {folder / "ids"}},
                                              .drop_duplicates = true});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.duplicates, 1);
  EXPECT_TRUE(names_all(error_of([&] {
                          prepare_texts({.tokenizer = "none",
                                         .vocab_size = 10,
                                         .input = {.inputs = {folder / "ids"}},
                                         .near_duplicates = 0.8});
                        }),
                        {"--near-duplicates compares words", "--drop-duplicates"}));
}

TEST_F(PrepareDuplicates, FindsNearOnesWithAnyThreads) {
  // Families of a text, a copy with one changed word of 200 (similarity 0.95), one with 40 changed
  // words (below 0.5), and an exact copy, in random order.
  std::mt19937 random(5);
  constexpr int kFamilies = 60;
  Texts texts;
  for (int i = 0; i < kFamilies; ++i) {
    const std::string text = words(random, 200);
    const auto changed = [&](size_t every) {
      std::string copy;
      size_t number = 0;
      for (const char c : text)
        copy += c == ' ' && number++ % every == every / 2 ? " new " : std::string(1, c);
      return copy;
    };
    texts.insert(texts.end(), {text, changed(199), changed(5), text});
  }
  std::shuffle(texts.begin(), texts.end(), random);
  std::string lines;
  for (const std::string& text : texts) lines += text + "\n";
  write_file(folder / "a", lines);
  std::string first;
  for (const int threads : {1, 3}) {
    PrepareOptions options = {.input = {.inputs = {folder / "a"}},
                              .documents = Documents::line,
                              .near_duplicates = 0.8,
                              .threads = threads};
    const PrepareReport counted = prepare_texts(options);
    EXPECT_EQ(counted.documents, 4 * kFamilies);
    EXPECT_EQ(counted.duplicates, kFamilies);
    EXPECT_EQ(counted.near_duplicates, kFamilies);
    options.drop_duplicates = true;
    EXPECT_EQ(prepare_texts(options).documents, 2 * kFamilies);
    const Texts left = texts_of(folder / "set");
    EXPECT_EQ(left.front(), texts.front());
    if (first.empty()) first = files();
    EXPECT_EQ(files(), first);
  }
  EXPECT_EQ(read_metadata(IndexedDataset(folder / "set"))->near_duplicates, kFamilies);
}

TEST_F(PrepareDuplicates, ShufflesDocumentsWithAnyThreads) {
  std::string text;
  Texts lines;
  for (int i = 0; i < 40000; ++i)
    lines.push_back(fmt::format("{} {}", i, std::string(i % 77, 'x')));
  for (const std::string& line : lines) text += line + "\n";
  write_file(folder / "a", text);
  PrepareOptions options = {
      .input = {.inputs = {folder / "a"}}, .documents = Documents::line, .shuffle_seed = 1};
  prepare_texts(options);
  Texts shuffled = texts_of(folder / "set");
  EXPECT_FALSE(std::ranges::is_sorted(shuffled));
  int stay = 0;
  for (size_t i = 0; i < shuffled.size(); ++i) stay += shuffled[i] == lines[i] ? 1 : 0;
  EXPECT_LT(stay, 10);  // 1 is expected
  const std::string one = files();
  options.threads = 3;
  prepare_texts(options);
  EXPECT_TRUE(files() == one);
  EXPECT_EQ(read_metadata(IndexedDataset(folder / "set"))->shuffle_seed, 1);
  options.shuffle_seed = 2;
  prepare_texts(options);
  EXPECT_FALSE(read_file(folder / "set.bin") ==
               one.substr(0, std::filesystem::file_size(folder / "set.bin")));
  std::ranges::sort(shuffled);
  std::ranges::sort(lines);
  EXPECT_TRUE(shuffled == lines);
  EXPECT_EQ(folder.names(),
            (Texts{"a", "set.bin", "set.idx", "set.meta.json", "set.tokenizer.json"}));
}

}  // namespace
}  // namespace tessera
