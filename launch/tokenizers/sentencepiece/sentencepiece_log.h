#pragma once

// Exported by the library, but not declared in its installed headers.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace tessera {

/// Suppresses the library's own output on standard error; errors are in its return values.
inline void silence_sentencepiece() {
  constexpr int kFatal = 3;
  sentencepiece::logging::SetMinLogLevel(kFatal);
}

}  // namespace tessera
