/* Every function of the header, as a C program uses it. What is wrong ends it with a line that tells where. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <onewrite.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s (errno %d, %s)\n", __LINE__, #condition, errno, ow_last_error()); \
            exit(1); \
        } \
    } while (0)

/* The call fails with this number and says why. */
#define REFUSED(call, number) \
    do { \
        errno = 0; \
        CHECK((long)(call) == -1 && errno == (number) && *ow_last_error()); \
    } while (0)

#define REFUSED_POINTER(call, number) \
    do { \
        errno = 0; \
        CHECK((call) == NULL && errno == (number) && *ow_last_error()); \
    } while (0)

static struct ow_fs *opened(const char *image, const char *options) {
    struct ow_fs *fs = ow_open(image, options);
    CHECK(fs);
    return fs;
}

static void make(const char *image) {
    CHECK(*ow_last_error() == 0);
    REFUSED(ow_mkfs(image, 4 << 20), EINVAL);
    REFUSED(ow_mkfs("/nowhere/image", 16 << 20), ENOENT);
    REFUSED(ow_mkfs(NULL, 16 << 20), EFAULT);
    CHECK(ow_mkfs(image, 64 << 20) == 0);
    REFUSED(ow_mkfs(image, 64 << 20), EEXIST);
    REFUSED_POINTER(ow_open(image, "data=nonsense"), EINVAL);
    CHECK(strstr(ow_last_error(), "nonsense"));
    REFUSED_POINTER(ow_open(image, "acl"), EINVAL);
    REFUSED_POINTER(ow_open("/nowhere/image", NULL), ENOENT);
    REFUSED_POINTER(ow_open("", NULL), ENOENT);
    REFUSED_POINTER(ow_open(NULL, NULL), EFAULT);
}

/* As under `onewrite crash --run`, but a file beside the image hears it. */
static void acknowledgements(const char *image) {
    char heard[100] = "", path[4096];
    snprintf(path, sizeof path, "%s.acked", image);
    unsetenv("ONEWRITE_ACK");
    REFUSED(ow_acked("row 7"), ENOENT);
    CHECK(strstr(ow_last_error(), "ONEWRITE_ACK is not set"));
    setenv("ONEWRITE_ACK", path, 1);
    REFUSED(ow_acked("row 7"), ENOENT);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && ow_acked("row 7") == 0);
    REFUSED(ow_acked(""), EINVAL);
    REFUSED(ow_acked("two\nlines"), EINVAL);
    REFUSED(ow_acked(NULL), EFAULT);
    CHECK(read(file, heard, sizeof heard) == 22 && !strcmp(heard, "onewrite: acked row 7\n"));
    CHECK(close(file) == 0 && unlink(path) == 0);
}

static void files(struct ow_fs *fs) {
    uint8_t buffer[100];
    struct ow_stat stat;
    struct ow_file *file = ow_file_open(fs, "/f", O_RDWR | O_CREAT | O_EXCL, 0666);
    CHECK(file);
    CHECK(ow_pwrite(file, "hello world", 11, 0) == 11);
    CHECK(ow_pwrite(file, "J", 1, 0) == 1);
    CHECK(ow_pwrite(file, NULL, 0, 0) == 0);
    CHECK(ow_pread(file, buffer, sizeof buffer, 0) == 11 && !memcmp(buffer, "Jello world", 11));
    CHECK(ow_pread(file, buffer, 3, 4) == 3 && !memcmp(buffer, "o w", 3));
    CHECK(ow_pread(file, buffer, sizeof buffer, 11) == 0);
    CHECK(ow_fstat(file, &stat) == 0 && stat.size == 11 && S_ISREG(stat.mode) && (stat.mode & 07777) == 0666);
    CHECK(stat.nlink == 1 && stat.mtime.seconds > 1700000000 && stat.mtime.nanoseconds < 1000000000);
    CHECK(ow_ftruncate(file, 5) == 0 && ow_fsync(file) == 0 && ow_fdatasync(file) == 0);
    CHECK(ow_pread(file, buffer, sizeof buffer, 0) == 5);
    REFUSED(ow_pread(file, buffer, 1, -1), EINVAL);
    REFUSED(ow_pread(file, NULL, 1, 0), EFAULT);
    REFUSED(ow_pwrite(file, NULL, 1, 0), EFAULT);
    REFUSED(ow_pwrite(file, "x", 1, -1), EINVAL);
    REFUSED(ow_pwrite(file, "x", 1, INT64_MAX), EFBIG);
    REFUSED(ow_ftruncate(file, -1), EINVAL);
    REFUSED(ow_ftruncate(file, INT64_MAX), EFBIG);
    REFUSED(ow_fstat(file, NULL), EFAULT);
    CHECK(ow_file_close(file) == 0);

    REFUSED_POINTER(ow_file_open(fs, "/f", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    REFUSED_POINTER(ow_file_open(fs, "/absent", O_RDONLY, 0), ENOENT);
    REFUSED_POINTER(ow_file_open(fs, "", O_RDONLY, 0), ENOENT);
    REFUSED_POINTER(ow_file_open(fs, NULL, O_RDONLY, 0), EFAULT);
    REFUSED_POINTER(ow_file_open(NULL, "/f", O_RDONLY, 0), EFAULT);
    REFUSED_POINTER(ow_file_open(fs, "/f", O_RDONLY | O_NONBLOCK, 0), EINVAL);
    REFUSED_POINTER(ow_file_open(fs, "/f", O_RDONLY | O_DIRECTORY, 0), ENOTDIR);
    REFUSED_POINTER(ow_file_open(fs, "/f/g", O_RDWR | O_CREAT, 0644), ENOTDIR);

    CHECK((file = ow_file_open(fs, "/f", O_WRONLY | O_CREAT | O_APPEND, 0644)));
    CHECK(ow_pwrite(file, "!", 1, 0) == 1);
    REFUSED(ow_pread(file, buffer, 1, 0), EBADF);
    CHECK(ow_fstat(file, &stat) == 0 && stat.size == 6);
    ow_file_close(file);
    CHECK((file = ow_file_open(fs, "/f", O_RDONLY, 0)));
    CHECK(ow_pread(file, buffer, sizeof buffer, 0) == 6 && !memcmp(buffer, "Jello!", 6));
    REFUSED(ow_pwrite(file, "x", 1, 0), EBADF);
    REFUSED(ow_ftruncate(file, 0), EINVAL);
    ow_file_close(file);
    CHECK((file = ow_file_open(fs, "/f", O_RDWR | O_TRUNC, 0)));
    CHECK(ow_fstat(file, &stat) == 0 && stat.size == 0);
    CHECK(ow_unlink(fs, "/f") == 0 && ow_pwrite(file, "x", 1, 0) == 1);
    CHECK(ow_fstat(file, &stat) == 0 && stat.nlink == 0 && stat.size == 1);
    ow_file_close(file);
    REFUSED(ow_unlink(fs, "/f"), ENOENT);
}

/* Reads and writes that take more than one piece, at an odd place. */
static void large(struct ow_fs *fs) {
    size_t size = (5 << 20) + 123;
    uint8_t *written = malloc(size), *read = malloc(size + 1000);
    for (size_t at = 0; at < size; at++) written[at] = (uint8_t)(at * 31 + (at >> 12));
    struct ow_file *file = ow_file_open(fs, "/large", O_RDWR | O_CREAT, 0644);
    CHECK(ow_pwrite(file, written, size, 77) == (ssize_t)size);
    CHECK(ow_pread(file, read, size + 1000, 77) == (ssize_t)size && !memcmp(written, read, size));
    CHECK(ow_pread(file, read, 77, 0) == 77 && read[0] == 0 && read[76] == 0);
    /* A full disk: a part is written, or none with a reason; then there is room again. */
    ssize_t part;
    int64_t end = 0;
    while ((part = ow_pwrite(file, written, size, end)) > 0 && end < 1 << 27) end += part;
    CHECK(part == -1 && errno == ENOSPC);
    ow_file_close(file);
    CHECK(ow_unlink(fs, "/large") == 0 && ow_sync(fs) == 0);
    free(written);
    free(read);
}

static void names(struct ow_fs *fs) {
    struct ow_stat stat, other;
    char target[100];
    CHECK(ow_mkdir(fs, "/d", 0777) == 0 && ow_stat(fs, "/d", &stat) == 0);
    CHECK(S_ISDIR(stat.mode) && (stat.mode & 07777) == 0777);
    REFUSED(ow_mkdir(fs, "/d", 0755), EEXIST);
    REFUSED(ow_mkdir(fs, "/x/y", 0755), ENOENT);
    REFUSED(ow_mkdir(fs, "/", 0755), EINVAL);
    ow_file_close(ow_file_open(fs, "/d/a", O_WRONLY | O_CREAT, 0644));
    CHECK(ow_link(fs, "/d/a", "/d/b") == 0 && ow_stat(fs, "/d/b", &stat) == 0 && stat.nlink == 2);
    CHECK(ow_symlink(fs, "a", "/d/s") == 0 && ow_lstat(fs, "/d/s", &other) == 0 && S_ISLNK(other.mode));
    CHECK(ow_stat(fs, "/d/s", &other) == 0 && other.ino == stat.ino);
    CHECK(ow_readlink(fs, "/d/s", target, sizeof target) == 1 && target[0] == 'a');
    CHECK(ow_symlink(fs, "/d/made", "/d/dangling") == 0);
    ow_file_close(ow_file_open(fs, "/d/dangling", O_WRONLY | O_CREAT, 0644));
    CHECK(ow_stat(fs, "/d/made", &stat) == 0 && S_ISREG(stat.mode));
    REFUSED(ow_readlink(fs, "/d/a", target, sizeof target), EINVAL);
    REFUSED(ow_readlink(fs, "/d/s", NULL, 1), EFAULT);
    REFUSED(ow_link(fs, "/d", "/e"), EPERM);
    REFUSED(ow_stat(fs, "/absent", &stat), ENOENT);
    REFUSED(ow_stat(fs, "/d", NULL), EFAULT);
    REFUSED(ow_unlink(fs, "/d"), EISDIR);
    REFUSED(ow_rmdir(fs, "/d"), ENOTEMPTY);
    REFUSED_POINTER(ow_file_open(fs, "/d", O_RDWR, 0), EISDIR);
    struct ow_file *directory = ow_file_open(fs, "/d", O_RDONLY | O_DIRECTORY, 0);
    CHECK(directory && ow_fsync(directory) == 0);
    REFUSED(ow_pread(directory, target, 1, 0), EISDIR);
    ow_file_close(directory);

    /* A name is bytes. */
    CHECK(ow_rename(fs, "/d/b", "/d/\xff\xfe") == 0);
    REFUSED(ow_rename(fs, "/d/b", "/d/c"), ENOENT);
    CHECK(ow_symlink(fs, "d", "/way") == 0);
    struct ow_dir *names = ow_opendir(fs, "/way");
    CHECK(names);
    int count = 0;
    const struct ow_dirent *entry;
    errno = 0;
    while ((entry = ow_readdir(names))) {
        count++;
        CHECK(strcmp(entry->name, ".") && strcmp(entry->name, ".."));
        if (entry->name[0] == 's') CHECK(entry->kind == DT_LNK);
        if (!strcmp(entry->name, "\xff\xfe")) {
            CHECK(entry->kind == DT_REG);
            count += 100;
        }
    }
    CHECK(count == 105 && errno == 0 && ow_closedir(names) == 0);
    REFUSED_POINTER(ow_opendir(fs, "/d/a"), ENOTDIR);
    REFUSED_POINTER(ow_opendir(NULL, "/"), EFAULT);
    REFUSED_POINTER(ow_readdir(NULL), EFAULT);
    CHECK(ow_close(NULL) == 0 && ow_file_close(NULL) == 0 && ow_closedir(NULL) == 0);
    REFUSED(ow_sync(NULL), EFAULT);
    REFUSED(ow_fsync(NULL), EFAULT);
    CHECK(ow_mkdir(fs, "/empty", 0755) == 0 && ow_rmdir(fs, "/empty") == 0);
}

struct part {
    struct ow_fs *fs;
    int number;
};

/* Each thread has a file of its own and appends to one of all; its errors are its own. */
static void *thread(void *argument) {
    struct part *part = argument;
    char name[20], line[16];
    CHECK(*ow_last_error() == 0);
    snprintf(name, sizeof name, "/t%d", part->number);
    struct ow_file *own = ow_file_open(part->fs, name, O_RDWR | O_CREAT, 0644);
    struct ow_file *shared = ow_file_open(part->fs, "/shared", O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(own && shared);
    for (int turn = 0; turn < 20; turn++) {
        snprintf(line, sizeof line, "%07d\n", part->number);
        CHECK(ow_pwrite(own, line, 8, turn * 8) == 8 && ow_fdatasync(own) == 0);
        CHECK(ow_pwrite(shared, line, 8, 0) == 8);
    }
    snprintf(name, sizeof name, "/absent%d", part->number);
    REFUSED(ow_unlink(part->fs, name), ENOENT);
    CHECK(strstr(ow_last_error(), "absent"));
    ow_file_close(own);
    ow_file_close(shared);
    return NULL;
}

/* Stores into two mappings: private, then durable together; too many are refused and stay. */
static void mappings(struct ow_fs *fs) {
    char text[8];
    void *bytes[2];
    size_t size[2];
    struct ow_draft *draft = ow_draft_begin(fs), *other = ow_draft_begin(fs);
    struct ow_draft_file *one = ow_draft_create(draft, "/map-one", 0600);
    struct ow_draft_file *two = ow_draft_create(draft, "/map-two", 0600);
    CHECK(ow_draft_pwrite(one, "old one", 7, 0) == 7 && ow_draft_ftruncate(two, 20 << 20) == 0);
    CHECK(ow_draft_commit(draft) == 0);
    struct ow_mapping *first = ow_mapping_begin(one, &bytes[0], &size[0]);
    struct ow_mapping *second = ow_mapping_begin(two, &bytes[1], &size[1]);
    CHECK(first && second && size[0] == 7 && size[1] == 20 << 20 && !memcmp(bytes[0], "old one", 7));
    memcpy(bytes[0], "new", 3);
    memset(bytes[1], 1, size[1]);
    struct ow_mapping *both[] = {first, second}, *twice[] = {first, first};
    struct ow_file *filler = ow_file_open(fs, "/filler", O_WRONLY | O_CREAT, 0600);
    static char chunk[1 << 20];
    off_t filled = 0;
    while (filled < 45 << 20 && ow_pwrite(filler, chunk, sizeof chunk, filled) == sizeof chunk) filled += sizeof chunk;
    REFUSED(ow_draft_msync(draft, both, 2), ENOSPC);
    CHECK(ow_file_close(filler) == 0 && ow_unlink(fs, "/filler") == 0);
    struct ow_file *plain = ow_file_open(fs, "/map-one", O_RDONLY, 0);
    CHECK(ow_pread(plain, text, 7, 0) == 7 && !memcmp(text, "old one", 7) && !memcmp(bytes[0], "new one", 7));
    memset((char *)bytes[1] + 1, 0, size[1] - 1);
    REFUSED(ow_draft_msync(other, both, 2), EINVAL);
    REFUSED(ow_draft_msync(draft, twice, 2), EINVAL);
    REFUSED(ow_draft_msync(draft, NULL, 1), EFAULT);
    REFUSED_POINTER(ow_mapping_begin(one, NULL, &size[0]), EFAULT);
    CHECK(ow_draft_msync(draft, both, 2) == 0 && ow_draft_msync(draft, NULL, 0) == 0);
    CHECK(ow_pread(plain, text, 7, 0) == 7 && !memcmp(text, "new one", 7));
    CHECK(ow_draft_pread(two, text, 2, 0) == 2 && text[0] == 1 && text[1] == 0);
    CHECK(ow_mapping_end(first) == 0 && ow_mapping_end(second) == 0 && ow_mapping_end(NULL) == 0);
    CHECK(ow_draft_file_close(one) == 0 && ow_draft_file_close(two) == 0 && ow_file_close(plain) == 0);
    CHECK(ow_draft_end(draft) == 0 && ow_draft_end(other) == 0);
}

/* Changes of two files and a name: private, then all there; dropped; refused to others. */
static void drafts(struct ow_fs *fs) {
    char text[16];
    struct ow_stat stat;
    struct ow_draft *draft = ow_draft_begin(fs), *other = ow_draft_begin(fs);
    CHECK(draft && other);
    struct ow_file *plain = ow_file_open(fs, "/plain", O_RDWR | O_CREAT, 0644);
    CHECK(plain && ow_pwrite(plain, "before", 6, 0) == 6);
    struct ow_draft_file *one = ow_draft_claim(draft, "/plain"), *two = ow_draft_create(draft, "/made", 0600);
    CHECK(one && two);
    CHECK(ow_draft_pwrite(one, "after!", 6, 0) == 6 && ow_draft_pwrite(one, "more", 4, -1) == 4);
    CHECK(ow_draft_pwrite(two, "made", 4, 0) == 4 && ow_draft_size(one) == 10 && ow_draft_punch(one, 0, 2) == 0);
    CHECK(ow_draft_pread(one, text, sizeof text, 0) == 10 && !memcmp(text, "\0\0ter!more", 10));
    CHECK(ow_pread(plain, text, sizeof text, 0) == 6 && !memcmp(text, "before", 6));
    REFUSED(ow_pwrite(plain, "x", 1, 0), EBUSY);
    REFUSED_POINTER(ow_draft_claim(other, "/plain"), EBUSY);
    REFUSED(ow_stat(fs, "/made", &stat), ENOENT);
    REFUSED_POINTER(ow_draft_create(draft, "/made", 0600), EEXIST);
    REFUSED_POINTER(ow_draft_claim(draft, "/nothing"), ENOENT);
    REFUSED_POINTER(ow_draft_claim(NULL, "/plain"), EFAULT);
    REFUSED(ow_draft_pwrite(one, text, 1, -2), EINVAL);
    CHECK(ow_draft_commit(draft) == 0);
    CHECK(ow_pread(plain, text, sizeof text, 0) == 10 && !memcmp(text, "\0\0ter!more", 10));
    CHECK(ow_stat(fs, "/made", &stat) == 0 && stat.size == 4 && (stat.mode & 07777) == 0600);

    CHECK(ow_draft_ftruncate(one, 1) == 0 && ow_draft_unlink(draft, "/made") == 0 && ow_draft_abort(draft) == 0);
    CHECK(ow_draft_size(one) == 10 && ow_stat(fs, "/made", &stat) == 0);
    struct ow_draft_file *three = ow_draft_create(other, "/third", 0600);
    CHECK(three && ow_draft_pwrite(three, "3", 1, 0) == 1 && ow_draft_rename(draft, "/made", "/moved") == 0);
    const struct ow_draft *both[] = {draft, other}, *twice[] = {draft, draft};
    REFUSED(ow_drafts_commit(fs, twice, 2), EINVAL);
    REFUSED(ow_drafts_commit(fs, NULL, 2), EFAULT);
    CHECK(ow_drafts_commit(fs, both, 2) == 0);
    CHECK(ow_stat(fs, "/moved", &stat) == 0 && ow_stat(fs, "/third", &stat) == 0);
    REFUSED(ow_stat(fs, "/made", &stat), ENOENT);
    CHECK(ow_draft_end(draft) == 0 && ow_draft_end(other) == 0 && ow_draft_end(NULL) == 0);
    REFUSED(ow_draft_pwrite(one, "x", 1, 0), ENOENT);
    CHECK(ow_draft_file_close(one) == 0 && ow_draft_file_close(two) == 0 && ow_draft_file_close(three) == 0);
    CHECK(ow_pwrite(plain, "free", 4, 0) == 4 && ow_file_close(plain) == 0);
}

/* Pages of one file become those of another. */
static void share(struct ow_fs *fs) {
    static char pages[8192], found[8192];
    memset(pages, 'a', 4096);
    memset(pages + 4096, 'b', 4096);
    struct ow_file *area = ow_file_open(fs, "/area", O_RDWR | O_CREAT, 0644);
    struct ow_file *table = ow_file_open(fs, "/table", O_RDWR | O_CREAT, 0644);
    struct ow_file *reader = ow_file_open(fs, "/table", O_RDONLY, 0);
    CHECK(ow_pwrite(area, pages, 8192, 0) == 8192 && ow_pwrite(table, pages, 8192, 0) == 8192);
    struct ow_share_range ranges[] = {{area, 4096, table, 0, 4096}, {area, 0, table, 4096, 4096}};
    CHECK(ow_share(fs, ranges, 2) == 0 && ow_share(fs, NULL, 0) == 0);
    CHECK(ow_pread(table, found, 8192, 0) == 8192 && found[0] == 'b' && found[4096] == 'a');
    ranges[1].length = 100;
    REFUSED(ow_share(fs, ranges, 2), EINVAL);
    ranges[1].length = 4096;
    ranges[1].target = reader;
    REFUSED(ow_share(fs, ranges, 2), EBADF);
    ranges[1].target = NULL;
    REFUSED(ow_share(fs, ranges, 2), EFAULT);
    CHECK(ow_file_close(area) == 0 && ow_file_close(table) == 0 && ow_file_close(reader) == 0);
}

static void threads(struct ow_fs *fs) {
    pthread_t ids[8];
    struct part parts[8];
    struct ow_stat stat;
    for (int number = 0; number < 8; number++) {
        parts[number] = (struct part){fs, number};
        CHECK(pthread_create(&ids[number], NULL, thread, &parts[number]) == 0);
    }
    for (int number = 0; number < 8; number++) CHECK(pthread_join(ids[number], NULL) == 0);
    CHECK(ow_stat(fs, "/shared", &stat) == 0 && stat.size == 8 * 20 * 8);
    CHECK(ow_stat(fs, "/t7", &stat) == 0 && stat.size == 160);
}

static void read_only(const char *image) {
    struct ow_fs *fs = opened(image, "ro");
    struct ow_stat stat;
    CHECK(ow_stat(fs, "/shared", &stat) == 0);
    REFUSED(ow_mkdir(fs, "/new", 0755), EROFS);
    REFUSED(ow_unlink(fs, "/shared"), EROFS);
    REFUSED_POINTER(ow_file_open(fs, "/shared", O_RDWR, 0), EROFS);
    REFUSED_POINTER(ow_draft_begin(fs), EROFS);
    REFUSED(ow_share(fs, NULL, 0), EROFS);
    struct ow_file *file = ow_file_open(fs, "/shared", O_RDONLY, 0);
    CHECK(file && ow_close(fs) == 0);
    /* The image went first: the file only says so. */
    REFUSED(ow_fsync(file), EBADF);
    CHECK(ow_file_close(file) == 0);
}

static void all(const char *image) {
    make(image);
    acknowledgements(image);
    struct ow_fs *fs = opened(image, NULL);
    files(fs);
    large(fs);
    names(fs);
    CHECK(ow_close(fs) == 0);
    fs = opened(image, "data=data+async,cache=4M,commit=1");
    threads(fs);
    drafts(fs);
    mappings(fs);
    share(fs);
    CHECK(ow_close(fs) == 0);
    read_only(image);
}

/* Holds the image until the other end of standard input goes. */
static void hold(const char *image) {
    struct ow_fs *fs = opened(image, NULL);
    printf("open\n");
    fflush(stdout);
    CHECK(getchar() == EOF && ow_close(fs) == 0);
}

static void busy(const char *image) {
    REFUSED_POINTER(ow_open(image, NULL), EBUSY);
    CHECK(strstr(ow_last_error(), "in use"));
}

/* Dies right after an fsync, with more under way. */
static void die(const char *image) {
    struct ow_fs *fs = opened(image, "data=data+async");
    struct ow_file *file = ow_file_open(fs, "/synced", O_RDWR | O_CREAT, 0644);
    CHECK(ow_pwrite(file, "this is kept", 12, 0) == 12 && ow_fsync(file) == 0);
    CHECK(ow_mkdir(fs, "/perhaps", 0755) == 0);
    raise(SIGKILL);
}

static void after(const char *image) {
    uint8_t buffer[100];
    struct ow_fs *fs = opened(image, "data=data+async");
    struct ow_file *file = ow_file_open(fs, "/synced", O_RDONLY, 0);
    CHECK(file && ow_pread(file, buffer, sizeof buffer, 0) == 12 && !memcmp(buffer, "this is kept", 12));
    ow_file_close(file);
    CHECK(ow_close(fs) == 0);
}

int main(int argc, char **argv) {
    umask(027); // The library has none: the modes below stay as they are.
    const struct {
        const char *name;
        void (*part)(const char *);
    } parts[] = {{"all", all}, {"hold", hold}, {"busy", busy}, {"die", die}, {"after", after}};
    for (size_t at = 0; argc == 3 && at < sizeof parts / sizeof *parts; at++)
        if (!strcmp(argv[1], parts[at].name)) return parts[at].part(argv[2]), 0;
    fprintf(stderr, "usage: files all|hold|busy|die|after IMAGE\n");
    return 2;
}
