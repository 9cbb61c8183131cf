// A .tsv or .jsonl file of labeled texts; the first byte of the input says which, and whether
// labels are names.

#include "launch/data/datasets/labeled_lines.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string path = fuzz::file_of((data[0] & 1) == 0 ? "labels.tsv" : "labels.jsonl",
                                         fuzz::text_of(data + 1, size - 1));
  Labels labels{2};
  if ((data[0] & 2) != 0) labels.names = {"no", "yes"};
  fuzz::refuse_or_take([&] {
    for_each_labeled_line(path, labels, [&](const LabeledLine& line) {
      fuzz::expect(line.label == 0 || line.label == 1, "a label out of range");
      fuzz::expect(line.text.size() <= size, "a text longer than the file");
    });
  });
  return 0;
}
