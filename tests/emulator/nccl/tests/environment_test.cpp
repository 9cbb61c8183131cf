// The environment of NCCL that a run sets: the emulator does not show what each variable is for.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "launch/devices/open_devices.h"
#include "parallel/communicators/nccl/nccl_environment.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

using Variables = std::map<std::string, std::string>;

class NcclEnvironment : public testing::Test {
 protected:
  NcclEnvironment() : before_(variables()) { set({}); }
  ~NcclEnvironment() override { set(before_); }

  /// Sets these variables and unsets the others.
  static void set(const Variables& values) {
    for (const char* name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  /// Those that are set.
  static Variables variables() {
    Variables values;
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) values[name] = value;
    }
    return values;
  }
  /// Those that are set after a user has set `users`.
  static Variables added_to(const Variables& users, bool deterministic) {
    set(users);
    set_nccl_environment(deterministic);
    return variables();
  }

  inline static const Variables kAlways = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
                                           {"NCCL_RUNTIME_CONNECT", "0"},
                                           {"NCCL_GRAPH_REGISTER", "0"}};
  static Variables always_and(const std::string& name, const std::string& value) {
    Variables values = kAlways;
    values[name] = value;
    return values;
  }

 private:
  static constexpr const char* kNames[] = {"NCCL_LAUNCH_ORDER_IMPLICIT",
                                           "NCCL_RUNTIME_CONNECT",
                                           "NCCL_GRAPH_REGISTER",
                                           "NCCL_NVLS_ENABLE",
                                           "NCCL_ALGO",
                                           "NCCL_DEBUG",
                                           "NCCL_DEBUG_SUBSYS",
                                           "NCCL_DEBUG_FILE"};

  Variables before_;
};

TEST_F(NcclEnvironment, HasWhatUserHasNotSet) {
  EXPECT_EQ(added_to({}, /*deterministic=*/true), always_and("NCCL_NVLS_ENABLE", "0"));
  EXPECT_EQ(added_to({}, /*deterministic=*/false), kAlways);
  EXPECT_EQ(added_to({{"NCCL_ALGO", "^Tree"}}, /*deterministic=*/true),
            always_and("NCCL_ALGO", "^Tree"));
  const Variables of_user = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "0"},
                             {"NCCL_RUNTIME_CONNECT", "1"},
                             {"NCCL_GRAPH_REGISTER", "1"},
                             {"NCCL_NVLS_ENABLE", "1"}};
  EXPECT_EQ(added_to(of_user, /*deterministic=*/true), of_user);
}

TEST_F(NcclEnvironment, LogsUnlessUserDoes) {
  set({});
  log_nccl_to("runs/50%/nccl.txt");
  EXPECT_EQ(variables(), (Variables{{"NCCL_DEBUG", "INFO"},
                                    {"NCCL_DEBUG_SUBSYS", "INIT,GRAPH"},
                                    {"NCCL_DEBUG_FILE", "runs/50%%/nccl.txt"}}));
  set({{"NCCL_DEBUG", "WARN"}});
  log_nccl_to("nccl.txt");
  EXPECT_EQ(variables(), (Variables{{"NCCL_DEBUG", "WARN"}}));
}

TEST_F(NcclEnvironment, IsSetByRuns) {
  for (const bool deterministic : {true, false}) {
    set({});
    run_thread_ranks(1, [&](Communicator& host) {
      open_devices({DeviceChoice::cuda, Backend::nccl, deterministic}, host);
    });
    EXPECT_EQ(variables(), deterministic ? always_and("NCCL_NVLS_ENABLE", "0") : kAlways);
  }
}

TEST_F(NcclEnvironment, SaysWhereCollectivesOverlap) {
  constexpr int kDrivers[] = {12020, 12030, 12080, 12090, 13000};
  std::set<std::string> texts;
  for (const int driver : kDrivers) texts.insert(describe_launch_order(true, driver));
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(describe_launch_order(true, 12090), "collectives overlap");
  EXPECT_EQ(describe_launch_order(true, 12030), describe_launch_order(true, 12080));
  for (const int driver : kDrivers) {
    EXPECT_EQ(describe_launch_order(false, driver), describe_launch_order(false, 13000));
    EXPECT_FALSE(texts.contains(describe_launch_order(false, driver)));
  }
}

}  // namespace
}  // namespace tessera
