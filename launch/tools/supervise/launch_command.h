#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A host in the options of mpirun.
struct LaunchHost {
  std::string name;
  std::optional<int64_t> slots;  ///< ranks that may run on it, if given
  std::string text;              ///< as given: "node1:4", or a line of a hostfile
};

/// Ranks of a `tessera` command to start with mpirun.
struct LaunchRequest {
  std::optional<int64_t> ranks;
  std::string hosts;                     ///< "node1:4,node2:4"; "": this host, or those of Slurm
  std::string mpirun = "mpirun";         ///< with further options
  std::vector<std::string> command;      ///< "train", "x.yaml", ...
  std::vector<std::string> environment;  ///< names of variables that ranks on other hosts get, too
};

/// The words of mpirun that run `program` so, also as root, in a container and with more ranks than
/// cores. Without `ranks`, there is one for each slot of the hosts. Throws if neither is given.
std::vector<std::string> mpirun_command(const LaunchRequest& request, const std::string& program,
                                        bool is_root);

/// A command line that trains, as in `mpirun -np 4 --host a:2,b:2 tessera train x.yaml --set K=V`,
/// and its variants for other ranks and hosts. Only Open MPI's launchers (mpirun, mpiexec, orterun,
/// prterun) can be changed.
class LaunchCommand {
 public:
  /// Throws if the words contain no `train CONFIG`, start several programs, or name a hostfile that
  /// cannot be read.
  explicit LaunchCommand(std::vector<std::string> words);

  const std::vector<std::string>& words() const { return words_; }
  const std::string& config() const { return config_; }
  const std::vector<std::string>& overrides() const { return overrides_; }
  /// Whether it starts with Open MPI's launcher.
  bool is_open_mpi() const { return open_mpi_; }
  /// The value of -np; nullopt if it is not given.
  std::optional<int64_t> ranks() const { return ranks_; }
  /// The hosts of --host or --hostfile, each once; empty if neither is given.
  const std::vector<LaunchHost>& hosts() const { return hosts_; }

  /// The command for this number of ranks.
  LaunchCommand with_ranks(int64_t ranks) const;
  /// The command for some of its hosts. A hostfile is replaced by `hostfile`, which this writes.
  LaunchCommand with_hosts(const std::vector<LaunchHost>& hosts,
                           const std::filesystem::path& hostfile) const;
  /// The command with another `--set`.
  LaunchCommand with_override(const std::string& text) const;

 private:
  void parse_launcher(size_t program);
  void parse_train(size_t train);
  void set_hosts(const std::string& value, bool is_file);

  std::vector<std::string> words_;
  std::string config_;
  std::vector<std::string> overrides_;
  bool open_mpi_ = false;
  std::optional<int64_t> ranks_;
  std::optional<size_t> ranks_at_, hosts_at_;  // the words with these values
  bool hosts_in_file_ = false;
  std::vector<LaunchHost> hosts_;
};

/// Whether two names mean the same host: "node7" and "node7.cluster" do.
bool is_same_host(const std::string& a, const std::string& b);

}  // namespace tessera
