// vocab.json and merges.txt of byte-level BPE, with a NUL byte between them

#include <algorithm>
#include <filesystem>

#include "launch/tokenizers/bpe/bpe_tokenizer.h"
#include "tests/fuzz/fuzz_tokenizer.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const size_t end = std::min(text.find('\0'), size);
  const std::string path = fuzz::file_of("vocab.json", text.substr(0, end));
  fuzz::file_of("merges.txt", text.substr(std::min(end + 1, size)));
  fuzz::refuse_or_take([&] {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    BpeDescription bpe = read_bpe_folder(folder);
    const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
    const auto tokens = tokenizer.encode(text);
    fuzz::expect(tokenizer.decode(tokens) == text, "bytes do not come back");
    tokenizer.encode_with_special(text);
    fuzz::expect_cut_holds(tokenizer, text);
    bpe.add_prefix_space = true;
    fuzz::expect_cut_holds(BpeTokenizer(BpeVocabulary(bpe)), text);
  });
  return 0;
}
