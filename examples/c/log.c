/* A log in an image: each line that was acknowledged survives a power cut. */
#include <fcntl.h>
#include <onewrite.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, ow_last_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: log IMAGE LINE\n"), 2;
    struct ow_fs *fs = ow_open(argv[1], "data=data+async,cache=16M");
    if (!fs) return fail(argv[1]);

    struct ow_file *log = ow_file_open(fs, "/log", O_RDWR | O_CREAT | O_APPEND, 0644);
    if (!log) return fail("/log");
    if (ow_pwrite(log, argv[2], strlen(argv[2]), 0) < 0) return fail("/log");
    if (ow_pwrite(log, "\n", 1, 0) < 0) return fail("/log");
    if (ow_fdatasync(log) < 0) return fail("/log");
    printf("acknowledged\n");

    char text[4096];
    ssize_t length = ow_pread(log, text, sizeof text, 0);
    if (length < 0) return fail("/log");
    fwrite(text, 1, (size_t)length, stdout);
    ow_file_close(log);
    return ow_close(fs) < 0 ? fail(argv[1]) : 0;
}
