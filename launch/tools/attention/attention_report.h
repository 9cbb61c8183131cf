#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// The attention of one head of one layer, of T queries and S keys.
struct HeadAttention {
  int64_t layer = 0;
  int64_t head = 0;
  std::vector<float> weights;  ///< (T, S): weight of key s for query t; 0 if hidden
  bool is_local = false;       ///< whether the layer has a mask of its own, `local_hidden`
};

/// A text whose tokens are queries or keys.
struct AttentionText {
  std::string name = {};            ///< "source" or "target"; empty: there is no other text
  std::vector<int32_t> ids;         ///< tokens of the vocabulary
  std::vector<std::string> tokens;  ///< their texts: arbitrary bytes

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
};

/// The heads of all layers in which the T tokens of one text attend to the S tokens of the same or
/// another text.
struct AttentionMaps {
  std::string name = {};                   ///< "encoder", "decoder" or "cross"; empty: no other
  size_t queries = 0, keys = 0;            ///< which text of the sequence
  std::vector<uint8_t> hidden = {};        ///< (T, S): 1 if query t must not see key s
  std::vector<uint8_t> local_hidden = {};  ///< the same in local layers; empty if there are none
  std::vector<HeadAttention> heads = {};   ///< by layer, then head; may be a subset

  const std::vector<uint8_t>& hidden_of(const HeadAttention& head) const {
    return head.is_local ? local_hidden : hidden;
  }
};

/// The image whose patches are the tokens of a sequence, after a class token if it has one.
struct AttendedImage {
  int64_t size = 0;     ///< pixels of a side; 0: the sequence has no image
  int64_t patches = 0;  ///< patches of a side
  bool has_class_token = false;
  std::vector<uint8_t> colors;  ///< (size, size, 3): red, green and blue
};

/// A text and the self-attention of a model with one stack, both without a name; or the source and
/// the target of an encoder–decoder, with self-attention of both stacks and cross-attention.
struct SequenceAttention {
  std::vector<AttentionText> texts;
  std::vector<AttentionMaps> attentions;
  AttendedImage image = {};

  const AttentionText& queries_of(const AttentionMaps& maps) const { return texts[maps.queries]; }
  const AttentionText& keys_of(const AttentionMaps& maps) const { return texts[maps.keys]; }
};

/// The attention weights of a model's heads for real input.
struct AttentionReport {
  std::string checkpoint;  ///< where the weights come from
  std::string model;       ///< in words: kind, layers, heads
  std::string mask;        ///< in words: what is hidden
  std::vector<SequenceAttention> sequences;
};

/// How much a head attends to each patch of an image (patches, patches): from the class token, or
/// the mean over all patches as queries.
std::vector<float> patch_weights(const AttendedImage& image, const HeadAttention& head);

/// Throws, naming sequence, attention, layer and head, if sizes within a report disagree, heads are
/// out of order, a weight is not from 0 to 1, or a hidden key has a weight.
void check(const AttentionReport& report);

/// {"checkpoint", "model", "mask", "sequences": [{"ids": [...], "tokens": [...], "hidden": [[0 or
/// 1, one a key], one a query], "heads": [{"layer", "head", "weights": [[...], ...]}, ...]}, ...]}.
/// If layers differ in what they hide, a sequence also has "local_hidden", and a head "local".
/// A sequence of an encoder–decoder is {"source": {"ids", "tokens"}, "target": {"ids", "tokens"},
/// "attentions": [{"attention": "encoder", "decoder" or "cross", "queries": "source" or "target",
/// "keys": the same, "hidden", "heads"}, ...]}.
/// Weights have 6 significant digits; bytes of a token that are no UTF-8 become U+FFFD. Throws as
/// check() does.
Json to_json(const AttentionReport& report);

/// The inverse, without images. Treats `json` as untrusted; `source` names it in messages. Throws
/// if it is no report.
AttentionReport attention_report_of(const Json& json, const std::string& source);

}  // namespace tessera
