#pragma once

#include <cstdint>
#include <span>

namespace tessera {

/// The shape of a candidate.
struct ModelSize {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_heads = 0;

  /// Weights of the blocks' matrices: 12 × hidden_size² a layer.
  int64_t block_weights() const { return 12 * num_layers * hidden_size * hidden_size; }
};

/// From small to large. Each has 1.3 to 3.4 times the weights of the one before.
std::span<const ModelSize> candidate_sizes();

/// Size of a model and of its training data.
struct TrainingAmount {
  double parameters = 0.0;     ///< weights that a token is multiplied with: blocks and output head
  double tokens = 0.0;         ///< seen in training, with repetitions
  double unique_tokens = 0.0;  ///< of the text; later epochs are worth less and less
};

/// The loss to be expected, in nats per token of average web text: Chinchilla's law with the
/// constants of Besiroglu et al. (2024), and with what repeated tokens are worth according to
/// Muennighoff et al., "Scaling data-constrained language models" (2023). Only its order matters:
/// of models with different sizes and speeds, the one with the lowest loss is the best choice.
double expected_loss(const TrainingAmount& amount);

/// The size of the vocabulary of a tokenizer for so much text.
int64_t vocabulary_for(int64_t text_bytes);

/// Tokens of a sequence, a power of 2, for a training of so many tokens of a text with so many.
/// Only that 128 is better than 256 for 1.6 million tokens was measured.
int64_t seq_length_for(double tokens, int64_t text_tokens);

/// Tokens of a batch, for a training of so many tokens: half of what Li et al., "Predictable scale:
/// Part I, Step Law" (2025) found for trainings a thousand times as long.
int64_t batch_tokens_for(double tokens);

/// The peak learning rate, for such batches and a decay to zero. It depends on the size and the
/// tokens as in Step Law.
double peak_lr_for(const ModelSize& size, double tokens);

/// The dropout probability: 0 unless the text is seen many times. A customary value; not measured.
double dropout_for(const TrainingAmount& amount);

}  // namespace tessera
