#include "core/masks/attention_mask.h"

namespace tessera {

MaskKinds kinds_of(const AttentionMask& mask) {
  MaskKinds kinds;
  kinds.causal = mask.causal;
  kinds.window = mask.window > 0;
  kinds.lengths = mask.lengths.defined();
  kinds.hidden_keys = mask.hidden_keys.defined();
  kinds.documents = mask.documents.defined();
  kinds.hidden = mask.hidden.defined();
  kinds.additive = mask.additive.defined();
  return kinds;
}

std::string to_string(const MaskKinds& kinds) {
  std::string names;
  const auto add = [&](bool has, const char* name) {
    if (!has) return;
    if (!names.empty()) names += ", ";
    names += name;
  };
  add(kinds.causal, "causal");
  add(kinds.window, "window");
  add(kinds.lengths, "lengths");
  add(kinds.hidden_keys, "hidden_keys");
  add(kinds.documents, "documents");
  add(kinds.hidden, "hidden");
  add(kinds.additive, "additive");
  add(kinds.compact, "compact");
  return names.empty() ? "none" : names;
}

}  // namespace tessera
