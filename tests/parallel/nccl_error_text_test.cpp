#include "parallel/communicators/nccl/nccl_error_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(NcclErrorText, NamesOperationRankAndCause) {
  EXPECT_EQ(nccl_error_text({"all_reduce of fp32 (1024) on cuda:0",
                             "remote process exited or there was a network error",
                             "socketProgress: Connection closed by remote peer node3.\n", 2, 4}),
            "all_reduce of fp32 (1024) on cuda:0: NCCL failed on rank 2 of 4: remote process "
            "exited or there was a network error (socketProgress: Connection closed by remote peer "
            "node3). Set NCCL_DEBUG=WARN in the environment for details");
}

TEST(NcclErrorText, OmitsMissingDetails) {
  EXPECT_EQ(nccl_error_text({"the connection of the ranks", "internal error", "", 0, 1}),
            "the connection of the ranks: NCCL failed on rank 0 of 1: internal error. Set "
            "NCCL_DEBUG=WARN in the environment for details");
}

}  // namespace
}  // namespace tessera
