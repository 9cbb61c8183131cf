#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "launch/checkpoint/checkpoint.h"
#include "models/attention_plane.h"
#include "models/model_config.h"

namespace tessera {

/// The attachment with a checkpoint's attention mask: a file that model.attention_mask_file
/// accepts.
inline constexpr const char* kAttentionMaskAttachment = "attention_mask.safetensors";

/// Reads an attention mask for `model`: a safetensors file with one tensor (T, T), for all heads,
/// or (H, T, T), where T is the model's seq_length. Its name says what it contains: `hidden` or
/// `visible`, bool or uint8 of 0 and 1, or `additive`, fp32. Throws, naming the file, what was
/// found and what is allowed, if it is not that.
std::shared_ptr<const AttentionPlane> read_attention_mask(const std::filesystem::path& path,
                                                          const ModelConfig& model);

/// Reads model.attention_mask_file, if it is set, into model.attention_plane. Throws like
/// read_attention_mask(), naming the key, and if a layer leaves a query nothing to see in a text of
/// seq_length tokens.
void load_attention_mask(ModelConfig& model);

/// The bytes of the attachment. Throws if they are too many for a checkpoint.
std::string attention_mask_attachment(const AttentionPlane& plane);

/// The model of a checkpoint, with the attention mask that the checkpoint keeps. Throws if that is
/// missing, damaged, or not the one that the model was trained with.
ModelConfig model_of(const Checkpoint& checkpoint);

}  // namespace tessera
