#include "launch/data/indexed/check_dataset.h"

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

class CheckDataset : public ::testing::Test {
 protected:
  CheckDataset() {
    std::vector<int32_t> large(300000, 9);  // several pieces
    large[280000] = 4000;
    write_dataset(folder / "set", {{5, 6}, {}, large, {3}});
  }

  /// Changes bytes of the index of four documents in three sequences.
  void patch_index(size_t offset, const std::string& bytes) const {
    std::string index = read_file(folder / "set.idx");
    ASSERT_LE(offset + bytes.size(), index.size());
    write_file(folder / "set.idx", index.replace(offset, bytes.size(), bytes));
  }

  std::string fault(int64_t vocab_size = IndexedDataset::kAnyVocabulary) const {
    return error_of([&] { check_dataset(folder / "set", vocab_size); });
  }

  static constexpr size_t kPointers = 34 + 3 * 4;
  const TestFolder folder;
};

TEST_F(CheckDataset, DescribesWholeDataset) {
  int64_t read = 0;
  const DatasetCheck check = check_dataset(folder / "set", 4001, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, read);
    EXPECT_EQ(total, 300003);
    read = done;
  });
  EXPECT_EQ(read, 300003);
  EXPECT_EQ(to_string(check), (folder / "set") +
                                  ": 4 documents, 3 sequences, 300,003 tokens (uint16), ids 3 to "
                                  "4000: no fault found");
  write_dataset(folder / "none", {});
  EXPECT_EQ(to_string(check_dataset(folder / "none")),
            (folder / "none") + ": 0 documents, 0 sequences, 0 tokens (uint16): no fault found");
}

TEST_F(CheckDataset, NamesIdsOutsideVocabulary) {
  EXPECT_TRUE(names_all(fault(4000), {"set.bin", "position 280002 (byte 560004) is 4000",
                                      "the vocabulary has 4000 tokens", "in document 2"}));
}

TEST_F(CheckDataset, NamesSequencesThatOverlapOrAreOutOfOrder) {
  patch_index(kPointers + 8, bytes_of(int64_t{2}));
  EXPECT_TRUE(names_all(fault(), {"set.idx", "sequence pointer 1 is 2 (byte 54)",
                                  "the sequence before it ends at 4"}));
  patch_index(kPointers + 8, bytes_of(int64_t{4}));
  patch_index(kPointers + 16, bytes_of(int64_t{0}));
  EXPECT_TRUE(names_all(fault(), {"sequence pointer 2 is 0 (byte 62)", "ends at 600004"}));
  // A gap is no fault.
  patch_index(kPointers + 16, bytes_of(int64_t{600006}));
  write_file(folder / "set.bin", read_file(folder / "set.bin") + "\x07" + std::string(3, '\0'));
  EXPECT_TRUE(
      names_all(to_string(check_dataset(folder / "set")),
                {"4 bytes of " + (folder / "set") + ".bin belong to no sequence", "no fault"}));
}

TEST_F(CheckDataset, NamesFaultsThatReadersRefuse) {
  patch_index(9, bytes_of(uint64_t{3}));
  EXPECT_TRUE(names_all(fault(), {"set.idx: version is 3 (byte 9)"}));
  patch_index(9, bytes_of(uint64_t{1}));
  write_file(folder / "set.bin", read_file(folder / "set.bin") + "\n");
  EXPECT_TRUE(names_all(fault(), {"set.bin: has 600007 bytes", "do not belong together"}));
}

TEST_F(CheckDataset, NamesMetadataOfAnotherDataset) {
  write_file(folder / "set.meta.json", "{}");
  EXPECT_TRUE(names_all(fault(), {"set.meta.json", "tessera_version"}));
}

}  // namespace
}  // namespace tessera
