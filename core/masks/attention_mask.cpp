#include "core/masks/attention_mask.h"

namespace tessera {

MaskKinds kinds_of(const AttentionMask& mask) {
  MaskKinds kinds;
  // The bindings do not compile if a kind is missing here.
  auto& [causal, window, dilation, prefix, global_tokens, lengths, hidden_keys, documents, hidden,
         additive, hidden_by_position, additive_by_position, compact] = kinds;
  causal = mask.causal;
  window = mask.window > 0;
  dilation = mask.dilation != 1;
  prefix = mask.prefix > 0;
  global_tokens = mask.global_tokens > 0;
  lengths = mask.lengths.defined();
  hidden_keys = mask.hidden_keys.defined();
  documents = mask.documents.defined();
  hidden_by_position = is_by_position(mask.hidden);
  additive_by_position = is_by_position(mask.additive);
  hidden = mask.hidden.defined() && !hidden_by_position;
  additive = mask.additive.defined() && !additive_by_position;
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
  const auto& [causal, window, dilation, prefix, global_tokens, lengths, hidden_keys, documents,
               hidden, additive, hidden_by_position, additive_by_position, compact] = kinds;
  add(causal, "causal");
  add(window, "window");
  add(dilation, "dilation");
  add(prefix, "prefix");
  add(global_tokens, "global_tokens");
  add(lengths, "lengths");
  add(hidden_keys, "hidden_keys");
  add(documents, "documents");
  add(hidden, "hidden");
  add(additive, "additive");
  add(hidden_by_position, "hidden_by_position");
  add(additive_by_position, "additive_by_position");
  add(compact, "compact");
  return names.empty() ? "none" : names;
}

}  // namespace tessera
