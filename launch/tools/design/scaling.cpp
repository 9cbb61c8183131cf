#include "launch/tools/design/scaling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tessera {
namespace {

// Besiroglu et al. (2024), "Chinchilla scaling: a replication attempt".
constexpr double kEntropy = 1.8172;
constexpr double kOfParameters = 482.01, kParametersExponent = 0.3478;
constexpr double kOfTokens = 2085.43, kTokensExponent = 0.3658;
/// Muennighoff et al. (2023): epochs, and multiples of the parameters that the text is enough for,
/// after which more are worth 1/e as much.
constexpr double kTokenRepeats = 15.39, kParameterRepeats = 5.31;

/// Worth of `amount` if its excess over `unique` loses its value over `repeats` times as much.
double worth(double amount, double unique, double repeats) {
  if (amount <= unique) return amount;
  const double excess = amount / unique - 1.0;
  return unique * (1.0 + repeats * (1.0 - std::exp(-excess / repeats)));
}

/// The parameters for which `tokens` are the best use of the work.
double parameters_for(double tokens) {
  const double ratio = (kParametersExponent * kOfParameters) / (kTokensExponent * kOfTokens);
  return std::pow(ratio * std::pow(tokens, kTokensExponent), 1.0 / kParametersExponent);
}

}  // namespace

std::span<const ModelSize> candidate_sizes() {
  static constexpr std::array kSizes = {
      ModelSize{2, 64, 2},     ModelSize{3, 96, 3},     ModelSize{4, 128, 4},
      ModelSize{4, 192, 6},    ModelSize{6, 192, 6},    ModelSize{6, 256, 8},
      ModelSize{6, 384, 6},    ModelSize{8, 384, 6},    ModelSize{8, 512, 8},
      ModelSize{12, 512, 8},   ModelSize{12, 768, 12},  ModelSize{16, 896, 14},
      ModelSize{24, 1024, 16}, ModelSize{24, 1408, 11}, ModelSize{24, 2048, 16},
  };
  return kSizes;
}

double expected_loss(const TrainingAmount& amount) {
  const double unique = amount.unique_tokens;
  const double tokens = worth(amount.tokens, unique, kTokenRepeats);
  const double parameters = worth(
      amount.parameters, std::min(amount.parameters, parameters_for(unique)), kParameterRepeats);
  return kEntropy + kOfParameters / std::pow(parameters, kParametersExponent) +
         kOfTokens / std::pow(tokens, kTokensExponent);
}

int64_t vocabulary_for(int64_t text_bytes) {
  constexpr int64_t kLeast = 512, kMost = 32768;
  constexpr int64_t kBytesPerToken = 1024;  // of text for each token of the vocabulary
  const auto rounded =
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(text_bytes, 1)) / kBytesPerToken);
  return std::clamp(static_cast<int64_t>(rounded), kLeast, kMost);
}

int64_t seq_length_for(double tokens, int64_t text_tokens) {
  constexpr int64_t kShortest = 16, kLongest = 2048;
  constexpr int64_t kLeastRows = 64;  // of the text
  const auto wanted = static_cast<int64_t>(128.0 * std::pow(tokens / 1.6e6, 0.3));
  const int64_t length =
      std::clamp(std::min(wanted, text_tokens / kLeastRows), kShortest, kLongest);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length)));
}

// The constants of both are from docs/performance.md; Step Law's are 0.58 and 1.79.

int64_t batch_tokens_for(double tokens) { return std::llround(0.29 * std::pow(tokens, 0.571)); }

double peak_lr_for(const ModelSize& size, double tokens) {
  constexpr double kMost = 0.006;
  const auto weights = static_cast<double>(size.block_weights());
  const double lr = 0.58 * std::pow(weights, -0.713) * std::pow(std::max(tokens, 1.0), 0.307);
  constexpr double kDigits = 1e4;
  return std::min(kMost, std::max(std::round(lr * kDigits), 1.0) / kDigits);
}

double dropout_for(const TrainingAmount& amount) {
  constexpr double kManyEpochs = 8.0;
  return amount.tokens > kManyEpochs * amount.unique_tokens ? 0.1 : 0.0;
}

}  // namespace tessera
