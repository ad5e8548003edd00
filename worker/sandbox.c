/* Compile processes behind bubblewrap: see sandbox.h. */
#include "worker/sandbox.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"

static void add(struct gk_sandbox_command *command, const char *text, bool *failed)
{
    if (command->count + 1 >= GK_SANDBOX_ARGS_MAX) {
        *failed = true;
        return;
    }
    char *copy = gk_strdup(text);
    *failed = *failed || !copy;
    command->argv[command->count++] = copy;
}

static void add_bind(struct gk_sandbox_command *command, const char *path, bool *failed)
{
    add(command, "--ro-bind-try", failed);
    add(command, path, failed);
    add(command, path, failed);
}

/* A bundle's libraries lie in lib/ beside bin/. The loader asks /proc where that is, which is not
 * there inside, and takes what it is told. */
static void add_libraries(struct gk_sandbox_command *command, const char *program, bool *failed)
{
    const char *slash = strrchr(program, '/');
    char *bin = gk_strndup(program, slash ? (size_t)(slash - program) : 0);
    char *above = bin ? strrchr(bin, '/') : NULL;
    char *lib = bin ? gk_asprintf("%.*s/lib", above ? (int)(above - bin) : 0, bin) : NULL;
    *failed = *failed || !lib;
    if (lib) {
        add(command, "--setenv", failed);
        add(command, "LD_ORIGIN_PATH", failed);
        add(command, bin, failed);
        add_bind(command, lib, failed);
    }
    free(bin);
    free(lib);
}

void gk_sandbox_command_fini(struct gk_sandbox_command *command)
{
    for (uint32_t i = 0; command && i < command->count; i++) {
        free(command->argv[i]);
    }
    if (command) {
        memset(command, 0, sizeof *command);
    }
}

enum gk_status gk_sandbox_command(const char *bwrap, const char *program, const char *nvrtc_path,
                                  const char *const *args, struct gk_sandbox_command *command_out,
                                  struct gk_err *err)
{
    static const char *const folders[] = {"/usr/lib", "/usr/lib64", "/lib", "/lib64"};
    struct gk_sandbox_command command = {0};
    bool failed = false;
    const char *slash = strrchr(nvrtc_path, '/');
    char *folder =
        slash ? gk_strndup(nvrtc_path, (size_t)(slash - nvrtc_path)) : gk_strdup("/usr/lib");
    if (!folder) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (bwrap) {
        add(&command, bwrap, &failed);
        /* All but the host's name: it is no secret, and a service unit that forbids to make one
         * more kind of namespace forbids it to everybody else too. */
        static const char *const apart[] = {"--unshare-user-try", "--unshare-ipc", "--unshare-pid",
                                            "--unshare-net", "--unshare-cgroup-try"};
        for (size_t i = 0; i < GK_ARRAY_COUNT(apart); i++) {
            add(&command, apart[i], &failed);
        }
        add(&command, "--die-with-parent", &failed);
        add(&command, "--new-session", &failed);
        add(&command, "--clearenv", &failed);
#ifdef __SANITIZE_ADDRESS__ /* the sanitizer reads its maps and threads there */
        add(&command, "--proc", &failed);
        add(&command, "/proc", &failed);
#endif
        /* NVRTC looks for a temporary folder. Before the others: one of them may lie in it. */
        add(&command, "--tmpfs", &failed);
        add(&command, "/tmp", &failed);
        for (size_t i = 0; i < GK_ARRAY_COUNT(folders); i++) {
            add_bind(&command, folders[i], &failed);
        }
        add_bind(&command, folder, &failed);
        add_libraries(&command, program, &failed);
        add_bind(&command, program, &failed);
        add(&command, "--chdir", &failed);
        add(&command, "/", &failed);
        add(&command, "--", &failed);
    }
    add(&command, program, &failed);
    for (; *args; args++) {
        add(&command, *args, &failed);
    }
    free(folder);
    if (failed) {
        gk_sandbox_command_fini(&command);
        return gk_fail(err, GK_NOMEM, "out of memory, or too many arguments");
    }
    *command_out = command;
    return GK_OK;
}

bool gk_sandbox_works(const char *bwrap, const char *program, const char *nvrtc_path)
{
    const char *args[] = {"--child=probe", "--nvrtc", nvrtc_path, NULL};
    struct gk_sandbox_command command = {0};
    posix_spawn_file_actions_t actions;
    char *environment[] = {NULL};
    pid_t pid = -1;
    int exit_status = 1;
    if (gk_sandbox_command(bwrap, program, nvrtc_path, args, &command, NULL) != GK_OK ||
        posix_spawn_file_actions_init(&actions) != 0) {
        gk_sandbox_command_fini(&command);
        return false;
    }
    bool quiet = true;
    for (int fd = 0; fd <= 2; fd++) {
        quiet =
            quiet && posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0) == 0;
    }
    if (quiet && posix_spawn(&pid, bwrap, &actions, NULL, command.argv, environment) == 0) {
        while (waitpid(pid, &exit_status, 0) < 0) {
        }
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    gk_sandbox_command_fini(&command);
    return pid > 0 && WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0;
}
