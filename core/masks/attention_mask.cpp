#include "core/masks/attention_mask.h"

namespace tessera {

MaskKinds kinds_of(const AttentionMask& mask) {
  MaskKinds kinds;
  // The bindings do not compile if a kind is missing here.
  auto& [causal, window, lengths, hidden_keys, documents, hidden, additive, compact] = kinds;
  causal = mask.causal;
  window = mask.window > 0;
  lengths = mask.lengths.defined();
  hidden_keys = mask.hidden_keys.defined();
  documents = mask.documents.defined();
  hidden = mask.hidden.defined();
  additive = mask.additive.defined();
  compact = false;  // not known from the mask
  return kinds;
}

std::string to_string(const MaskKinds& kinds) {
  std::string names;
  const auto add = [&](bool has, const char* name) {
    if (!has) return;
    if (!names.empty()) names += ", ";
    names += name;
  };
  const auto& [causal, window, lengths, hidden_keys, documents, hidden, additive, compact] = kinds;
  add(causal, "causal");
  add(window, "window");
  add(lengths, "lengths");
  add(hidden_keys, "hidden_keys");
  add(documents, "documents");
  add(hidden, "hidden");
  add(additive, "additive");
  add(compact, "compact");
  return names.empty() ? "none" : names;
}

}  // namespace tessera
