/// `tessera` of a package: starts the variant of the program that is built for this processor
/// (cmake/variants.cmake). It is compiled for any x86-64 processor and uses no library of this
/// project, so that it can also tell that a processor is too old.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

constexpr int kFailed = 1;

/// The folder of the variant for this processor and system, or null if it is too old.
const char* variant() {
  __builtin_cpu_init();
  // These also say whether the system saves the registers. Processors that have all of them have
  // F16C, LZCNT and MOVBE, too, whose names not all compilers know.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4 && __builtin_cpu_supports("avx512bf16")) return "x86-64-v4-bf16";
  if (v4) return "x86-64-v4";
  return v3 ? "x86-64-v3" : nullptr;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return kFailed;
}

}  // namespace

int main(int, char** argv) {
  const char* name = variant();
  if (name == nullptr) {
    return fail(
        "this processor has no AVX2, or the system or virtual machine hides it. Tessera needs "
        "x86-64-v3, which Intel processors have since Haswell (2013) and AMD's since Zen (2017)");
  }
  std::error_code error;
  const auto launcher = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail("cannot read /proc/self/exe: " + error.message());
  const auto prefix = launcher.parent_path().parent_path();
  const std::string program = prefix / "libexec/tessera" / name / "tessera";
  execv(program.c_str(), argv);
  return fail("cannot start " + program + ", the program for this processor: " +
              std::strerror(errno) + ". Is the installation complete?");
}
