/* Record what a process writes to the files of a folder, and when it waits for the disk.

Loaded with LD_PRELOAD. The folder is $POWER_LOSS_FOLDER, the record $POWER_LOSS_JOURNAL. Each call
is one entry: operation, path, offset, length and data, in the order in which calls returned. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES 4096
#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[FILES]; /* of open files in the folder, by descriptor */
static int journal = -1;

static int is_recorded(const char *path) {
    const char *folder = getenv("POWER_LOSS_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length) || (path[length] && path[length] != '/')) return 0;
    size_t end = strlen(path);
    return end < 4 || strcmp(path + end - 4, "-shm"); /* shared memory does not survive anyway */
}

static void put(const void *data, size_t length) {
    for (const char *at = data; length;) {
        ssize_t written = REAL(ssize_t, write, int, const void *, size_t)(journal, at, length);
        if (written <= 0) abort();
        at += written;
        length -= written;
    }
}

static void record(char operation, const char *path, int64_t offset, const void *data, int64_t n) {
    if (journal < 0) {
        int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
        const char *name = getenv("POWER_LOSS_JOURNAL");
        journal = REAL(int, open64, const char *, int, ...)(name, flags, 0600);
        if (journal < 0) abort();
    }
    int64_t numbers[4] = {operation, strlen(path), offset, n};
    put(numbers, sizeof numbers);
    put(path, numbers[1]);
    if (data) put(data, n);
}

static const char *path_of(int file) { return file >= 0 && file < FILES ? paths[file] : NULL; }

/* Run a call, and record it if it succeeds. */
#define CALL(type, file, call, operation, offset, data, n)                   \
    pthread_mutex_lock(&lock);                                               \
    type result = call;                                                      \
    if (result >= 0 && path_of(file)) record(operation, path_of(file), offset, data, n); \
    pthread_mutex_unlock(&lock);                                             \
    return result;

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    pthread_mutex_lock(&lock);
    int is_new = flags & O_CREAT && access(path, F_OK);
    int file = REAL(int, open64, const char *, int, ...)(path, flags, mode);
    if (file >= 0 && file < FILES && is_recorded(path)) {
        paths[file] = strdup(path);
        if (is_new) record('c', path, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open64(path, flags, mode);
}

int close(int file) {
    pthread_mutex_lock(&lock);
    if (path_of(file)) {
        free(paths[file]);
        paths[file] = NULL;
    }
    int result = REAL(int, close, int)(file);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) {
    pthread_mutex_lock(&lock);
    int result = REAL(int, unlink, const char *)(path);
    if (!result && is_recorded(path)) record('u', path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t pwrite64(int file, const void *data, size_t n, off64_t offset) {
    CALL(ssize_t, file,
         (REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(file, data, n, offset)), 'w',
         offset, data, result)
}

ssize_t write(int file, const void *data, size_t n) {
    CALL(ssize_t, file, (REAL(ssize_t, write, int, const void *, size_t)(file, data, n)), 'w',
         lseek64(file, 0, SEEK_CUR) - result, data, result)
}

int ftruncate64(int file, off64_t length) {
    CALL(int, file, (REAL(int, ftruncate64, int, off64_t)(file, length)), 't', length, NULL, 0)
}

int fsync(int file) { CALL(int, file, (REAL(int, fsync, int)(file)), 's', 0, NULL, 0) }

int fdatasync(int file) { CALL(int, file, (REAL(int, fdatasync, int)(file)), 's', 0, NULL, 0) }

/* Other names of the same functions, for programs that were compiled with them. */
int ftruncate(int, off_t) __attribute__((alias("ftruncate64")));
ssize_t pwrite(int, const void *, size_t, off_t) __attribute__((alias("pwrite64")));
