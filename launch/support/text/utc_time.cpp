#include "launch/support/text/utc_time.h"

#include <time.h>

#include <array>

namespace tessera {

std::string now_in_utc() {
  const time_t now = ::time(nullptr);
  tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text = {};
  ::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace tessera
