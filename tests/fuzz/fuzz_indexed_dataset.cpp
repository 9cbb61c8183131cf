// PREFIX.idx of a dataset; the first two bytes of the input are the size of PREFIX.bin.

#include <algorithm>
#include <vector>

#include "launch/data/indexed/check_dataset.h"
#include "launch/data/indexed/dataset_statistics.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  fuzz::empty_file_of("dataset.bin", data[0] | size_t{data[1]} << 8);
  const std::string index = fuzz::file_of("dataset.idx", fuzz::text_of(data + 2, size - 2));
  fuzz::refuse_or_take([&] {
    const IndexedDataset dataset(index.substr(0, index.size() - 4), 1000);
    std::vector<int32_t> tokens;
    const int64_t most = std::min<int64_t>(dataset.num_sequences(), 1000);
    for (int64_t i = 0; i < most; ++i) {
      tokens.resize(static_cast<size_t>(std::min<int64_t>(dataset.sequence_length(i), 1000)));
      dataset.read(i, 0, tokens);
      dataset.sequence_start(i);
    }
    for (int64_t i = 0; i < std::min<int64_t>(dataset.num_documents(), 1000); ++i) {
      dataset.document_sequences(i);
      dataset.document_tokens(i);
    }
    if (dataset.num_tokens() > 0) {
      dataset.document_at(dataset.num_tokens() - 1);
      tokens.resize(static_cast<size_t>(std::min<int64_t>(dataset.num_tokens(), 1000)));
      dataset.read_tokens(dataset.num_tokens() - static_cast<int64_t>(tokens.size()), tokens);
    }
    describe_statistics(dataset, std::nullopt);
    if (dataset.num_tokens() <= 1000000) check_dataset(dataset.prefix());
  });
  return 0;
}
