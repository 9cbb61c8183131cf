#include "parallel/host/host_name.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <system_error>

#include "core/error.h"

namespace tessera {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  const bool is_known = gethostname(name, HOST_NAME_MAX) == 0;
  require(is_known, "the host does not report its name: {}",
          std::generic_category().message(errno));
  return name;
}

}  // namespace tessera
