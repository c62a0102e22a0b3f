#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/files.h"

namespace scalegemm::base {
namespace {

using Clock = std::chrono::steady_clock;

// posix_spawn's two descriptions, freed together.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  int describe(int output, const std::string& working_folder) {
    int error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    // Descriptors that the host program opened without O_CLOEXEC end here.
    error = error != 0 ? error : posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    if (error == 0 && !working_folder.empty()) {
      error = posix_spawn_file_actions_addchdir_np(&actions, working_folder.c_str());
    }
    // Its own process group, so that a timeout also reaches the programs that it starts.
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    const int flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    return error != 0 ? error : posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  }
};

std::string_view variable_name(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const auto is_changed = [&](const std::string& change) {
      return variable_name(change) == variable_name(*entry);
    };
    if (std::none_of(changes.begin(), changes.end(), is_changed)) {
      merged.emplace_back(*entry);
    }
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& s : strings) {
    result.push_back(s.data());
  }
  result.push_back(nullptr);
  return result;
}

// Reads until the end of the pipe or the deadline; false: the deadline came first.
bool drain(int fd, Clock::time_point deadline, size_t max_output, Finished* finished) {
  char buffer[16384];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return false;
    }
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready <= 0) {
      continue;  // time slice over, or interrupted
    }
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) {
      return true;
    }
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return true;
    }
    const size_t room = max_output - finished->output.size();
    const size_t kept = std::min(room, static_cast<size_t>(got));
    finished->output.append(buffer, kept);
    finished->truncated |= kept < static_cast<size_t>(got);
  }
}

// Polls, because the program may close its output long before it ends. False: the deadline came first.
bool wait_for_exit(pid_t child, Clock::time_point deadline, int* wait_status) {
  auto pause = std::chrono::microseconds(50);
  while (true) {
    const pid_t done = ::waitpid(child, wait_status, WNOHANG);
    if (done == child) {
      return true;
    }
    if (done < 0 && errno != EINTR) {
      *wait_status = 0;  // the host program ignores SIGCHLD: the exit code is lost, its output is not
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
}

void kill_group(pid_t child) {
  ::kill(-child, SIGKILL);
  int ignored = 0;
  while (::waitpid(child, &ignored, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<Finished> run(const Command& command) {
  if (command.argv.empty()) {
    return invalid_argument("run: argv needs the program's path, is empty");
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_status("create a pipe for", command.argv[0]);
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);

  SpawnSetup setup;
  std::vector<std::string> argv = command.argv;
  std::vector<std::string> environment = merged_environment(command.environment);
  pid_t child = 0;
  int error = setup.describe(write_end.get(), command.working_folder);
  if (error == 0) {
    error = posix_spawn(&child, argv[0].c_str(), &setup.actions, &setup.attributes, pointers(argv).data(),
                        pointers(environment).data());
  }
  if (error != 0) {
    return make_error(Code::kIoError, "cannot start {}: {}", command.argv[0],
                      std::generic_category().message(error));
  }
  write_end.reset();

  Finished finished;
  int wait_status = 0;
  const auto deadline = Clock::now() + command.timeout;
  if (!drain(read_end.get(), deadline, command.max_output, &finished) ||
      !wait_for_exit(child, deadline, &wait_status)) {
    kill_group(child);
    return make_error(Code::kIoError, "{}: did not end within {} ms and was killed", command.argv[0],
                      command.timeout.count());
  }
  finished.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
  return finished;
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.empty()) {
    return std::nullopt;
  }
  const auto is_program = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
    std::string candidate = fmt::format("{}/{}", folder, name);
    if (folder.starts_with('/') && is_program(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

}  // namespace scalegemm::base
