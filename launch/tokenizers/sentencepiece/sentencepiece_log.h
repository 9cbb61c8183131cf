#pragma once

// Not in the headers that the library installs, but part of it.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace tessera {

/// Ends what SentencePiece writes to the standard error by itself: what goes wrong is in what it
/// returns.
inline void silence_sentencepiece() {
  constexpr int kFatal = 3;
  sentencepiece::logging::SetMinLogLevel(kFatal);
}

}  // namespace tessera
