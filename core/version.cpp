#include "core/version.h"

namespace tessera {

const char* program_variant() { return TESSERA_VARIANT; }

}  // namespace tessera
