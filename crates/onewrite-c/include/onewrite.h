/* Onewrite for C: an image in the process of the program, by calls in the manner of POSIX; see docs/c.md.
 *
 * cbindgen made this file of crates/onewrite-c/src; do not edit it.
 *
 * What fails returns -1 or NULL, sets errno, and leaves a text for ow_last_error(). Any thread may call at any time;
 * only a struct ow_dir belongs to one thread at a time. A pointer that must not be NULL and is gives EFAULT. Use of
 * what was closed is undefined, as after free(3).
 */

#ifndef ONEWRITE_H
#define ONEWRITE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Longest name in a directory, in bytes.
 */
#define OW_NAME_MAX 255

/**
 * An open directory. One thread at a time may use it.
 */
struct ow_dir;

/**
 * Changes of several files that become visible and durable together, or never; docs/atomic-files.md. Any thread may
 * use it, many at once.
 */
struct ow_draft;

/**
 * A file as its draft has it. Any thread may use it, many at once. Calls fail with ENOENT after the draft's end.
 */
struct ow_draft_file;

/**
 * An open file. Any thread may use it, many at once.
 */
struct ow_file;

/**
 * An open image. Any thread may use it, many at once.
 */
struct ow_fs;

/**
 * Content of a file of a draft as memory, in which changes wait for ow_draft_msync.
 */
struct ow_mapping;

/**
 * A point in time.
 */
struct ow_time {
  /**
   * Seconds since 1970-01-01T00:00:00Z.
   */
  int64_t seconds;
  /**
   * 0 to 999999999.
   */
  uint32_t nanoseconds;
};

/**
 * What is known of a file.
 */
struct ow_stat {
  /**
   * Inode number.
   */
  uint64_t ino;
  /**
   * Bytes.
   */
  uint64_t size;
  /**
   * Space taken, in units of 512 bytes.
   */
  uint64_t blocks;
  /**
   * Type and permissions, as st_mode of stat(2): S_ISDIR(mode) and the like work.
   */
  uint32_t mode;
  /**
   * Number of names.
   */
  uint32_t nlink;
  /**
   * Owner.
   */
  uint32_t uid;
  /**
   * Group.
   */
  uint32_t gid;
  /**
   * Of a device node: number of the driver.
   */
  uint32_t device_major;
  /**
   * Of a device node: number of the device among those of the driver.
   */
  uint32_t device_minor;
  /**
   * Last read.
   */
  struct ow_time atime;
  /**
   * Last change of content.
   */
  struct ow_time mtime;
  /**
   * Last change of anything.
   */
  struct ow_time ctime;
  /**
   * Creation; zeros where the image does not keep it.
   */
  struct ow_time btime;
};

/**
 * A name in a directory.
 */
struct ow_dirent {
  /**
   * Inode number.
   */
  uint64_t ino;
  /**
   * Type, as d_type of readdir(3): DT_REG, DT_DIR, DT_LNK, ...
   */
  uint8_t kind;
  /**
   * The name, with a zero byte at its end. Any other bytes are possible in it but a slash.
   */
  char name[256];
};

/**
 * A range of ow_share. All numbers are bytes and multiples of 4096.
 */
struct ow_share_range {
  /**
   * The file whose content is taken.
   */
  const struct ow_file *source;
  /**
   * First byte there.
   */
  uint64_t source_offset;
  /**
   * The file that changes, open for writing.
   */
  const struct ow_file *target;
  /**
   * First byte there. The file grows if the range ends beyond its end.
   */
  uint64_t target_offset;
  /**
   * Length, not 0.
   */
  uint64_t length;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes an image of `size` bytes at `path`, which must not exist, with an empty file system in it. At least 8 MiB.
 * Returns 0, or -1 with errno.
 */
int ow_mkfs(const char *path,
            uint64_t size);

/**
 * Opens the image or disk at `path`, with nobody beside; what a crash left in its log is replayed.
 *
 * `options` are items between commas, as of `onewrite mount -o`: data=MODE, ro, rw, cache=SIZE, commit=SECONDS. NULL
 * or "" are the defaults: data=ordered,rw,cache=64M,commit=5. Returns NULL with errno after a failure: EBUSY if the
 * image is in use, EINVAL for an option that is wrong or an image that holds no file system.
 *
 * The image has a thread of its own in this process. In a child of fork(2) each call fails with EBADF.
 */
struct ow_fs *ow_open(const char *path,
                      const char *options);

/**
 * Makes everything durable, leaves the image clean and ends `fs`, also after a failure. Files and directories that
 * are still open must be closed all the same; other calls on such files fail with EBADF. NULL is no error.
 * Returns 0, or -1 with errno.
 */
int ow_close(struct ow_fs *fs);

/**
 * Makes everything durable. Returns 0, or -1 with errno.
 */
int ow_sync(const struct ow_fs *fs);

/**
 * Why the last call of this thread that failed did so, in words with place and cure; "" if none did. Valid until the
 * next failure in this thread.
 */
const char *ow_last_error(void);

/**
 * Acknowledges `token` to `onewrite crash --run`, which started this program: what is durable now has to be there
 * after each later power cut. The token is noted when this returns. It needs no image. Returns 0, or -1 with errno:
 * ENOENT if nothing listens (ONEWRITE_ACK is not set, or the run is over), EINVAL if the token is empty or has a
 * line's end in it.
 */
int ow_acked(const char *token);

/**
 * Opens a file, as open(2). Paths begin at the root of the image. Flags: O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL,
 * O_TRUNC, O_APPEND, O_DIRECTORY, O_CLOEXEC; others are EINVAL. A new file gets the permissions `mode` as they are
 * and belongs to root; permissions are kept, not checked. A directory opens for reading, so that ow_fsync can have it.
 * Returns NULL with errno after a failure.
 */
struct ow_file *ow_file_open(const struct ow_fs *fs,
                             const char *path,
                             int flags,
                             uint32_t mode);

/**
 * Closes a file; its content goes if it has no name any more. Does not make it durable. NULL is no error. Returns 0.
 */
int ow_file_close(struct ow_file *file);

/**
 * Reads up to `count` bytes from `offset` into `buffer`, as pread(2). Returns their number, 0 at the end of the file,
 * or -1 with errno.
 */
ssize_t ow_pread(const struct ow_file *file,
                 void *buffer,
                 size_t count,
                 int64_t offset);

/**
 * Writes `count` bytes of `buffer` at `offset`, as pwrite(2); with O_APPEND behind the end, whatever the offset.
 * Up to 64 KiB are one step in modes that keep content in the log. Returns how many were written, or -1 with errno.
 */
ssize_t ow_pwrite(const struct ow_file *file,
                  const void *buffer,
                  size_t count,
                  int64_t offset);

/**
 * Makes content, attributes and name of a file durable; of a directory, its names. Returns 0, or -1 with errno: what
 * was written since the last sync may be lost then.
 */
int ow_fsync(const struct ow_file *file);

/**
 * As ow_fsync, without attributes that reading the content does not need.
 */
int ow_fdatasync(const struct ow_file *file);

/**
 * Truncates a file to `size` bytes, or extends it with zeros. Returns 0, or -1 with errno.
 */
int ow_ftruncate(const struct ow_file *file, int64_t size);

/**
 * Tells what is known of an open file. Returns 0, or -1 with errno.
 */
int ow_fstat(const struct ow_file *file, struct ow_stat *stat);

/**
 * Tells what is known of what lies at `path`; symbolic links are followed. Returns 0, or -1 with errno.
 */
int ow_stat(const struct ow_fs *fs, const char *path, struct ow_stat *stat);

/**
 * As ow_stat, but of a symbolic link itself.
 */
int ow_lstat(const struct ow_fs *fs, const char *path, struct ow_stat *stat);

/**
 * Makes a directory with the permissions `mode` as they are. Returns 0, or -1 with errno.
 */
int ow_mkdir(const struct ow_fs *fs, const char *path, uint32_t mode);

/**
 * Removes an empty directory. Returns 0, or -1 with errno.
 */
int ow_rmdir(const struct ow_fs *fs, const char *path);

/**
 * Removes a name of anything but a directory. The content goes when no name and no open file is left. Returns 0, or
 * -1 with errno.
 */
int ow_unlink(const struct ow_fs *fs,
              const char *path);

/**
 * Moves a name, and replaces what has the new one, as rename(2). One step: after a power cut the old or the new state
 * is there. Returns 0, or -1 with errno.
 */
int ow_rename(const struct ow_fs *fs,
              const char *from,
              const char *to);

/**
 * Gives what lies at `path` a second name `link`; a symbolic link is not followed. Returns 0, or -1 with errno.
 */
int ow_link(const struct ow_fs *fs,
            const char *path,
            const char *link);

/**
 * Makes a symbolic link at `path` that leads to `target`. Returns 0, or -1 with errno.
 */
int ow_symlink(const struct ow_fs *fs, const char *target, const char *path);

/**
 * Stores where a symbolic link leads in `buffer`, without a zero byte behind it and truncated to `size` bytes, as
 * readlink(2). Returns the number of bytes stored, or -1 with errno.
 */
ssize_t ow_readlink(const struct ow_fs *fs,
                    const char *path,
                    char *buffer,
                    size_t size);

/**
 * Opens a directory: the names that it has now, without "." and "..". Returns NULL with errno after a failure.
 */
struct ow_dir *ow_opendir(const struct ow_fs *fs,
                          const char *path);

/**
 * The next name, valid until the next call for this directory. Returns NULL at the end, errno as it was.
 */
const struct ow_dirent *ow_readdir(struct ow_dir *directory);

/**
 * Closes a directory. NULL is no error. Returns 0.
 */
int ow_closedir(struct ow_dir *directory);

/**
 * Makes the targets of `count` ranges read as their sources do, as one step that is durable when the call returns:
 * after a power cut all of them do, or none. Without a SHARE command of the device a mode that logs content is needed
 * (EOPNOTSUPP). EINVAL: ranges that are not of whole pages or overlap, a source with holes or beyond its end, a call
 * that replaces pages and extends a target. EBADF: a file that is not open for it. Returns 0, or -1 with errno.
 */
int ow_share(const struct ow_fs *fs,
             const struct ow_share_range *ranges,
             size_t count);

/**
 * Begins an empty draft. Nobody else sees what it changes before ow_draft_commit. Needs a mode that logs content:
 * EOPNOTSUPP in others. Returns NULL with errno after a failure.
 */
struct ow_draft *ow_draft_begin(const struct ow_fs *fs);

/**
 * Makes all changes of the draft visible and durable, as one step. It is empty then and keeps its files. Returns 0, or
 * -1 with errno: EEXIST or ENOENT if a name was taken or lost meanwhile, the draft is as it was then.
 */
int ow_draft_commit(const struct ow_draft *draft);

/**
 * Commits `count` drafts of one image as one step. EINVAL: a draft named twice or of another image. Returns 0, or -1
 * with errno: nothing has changed then.
 */
int ow_drafts_commit(const struct ow_fs *fs,
                     const struct ow_draft *const *drafts,
                     size_t count);

/**
 * Drops the changes of the draft since its last commit. It keeps its files. Returns 0, or -1 with errno.
 */
int ow_draft_abort(const struct ow_draft *draft);

/**
 * Ends a draft: what it did not commit is dropped, and its files are free for others. NULL is no error. Returns 0.
 */
int ow_draft_end(struct ow_draft *draft);

/**
 * Gives the draft the right to change a regular file, until its end. EBUSY if another draft has it. Returns NULL with
 * errno after a failure.
 */
struct ow_draft_file *ow_draft_claim(const struct ow_draft *draft,
                                     const char *path);

/**
 * Makes a file that gets its name with the commit. Returns NULL with errno after a failure.
 */
struct ow_draft_file *ow_draft_create(const struct ow_draft *draft, const char *path, uint32_t mode);

/**
 * Removes a name of a file with the commit. Returns 0, or -1 with errno.
 */
int ow_draft_unlink(const struct ow_draft *draft, const char *path);

/**
 * Moves a name of a file with the commit, and replaces what has the new one. Returns 0, or -1 with errno.
 */
int ow_draft_rename(const struct ow_draft *draft, const char *from, const char *to);

/**
 * Maps the whole file as its draft has it; `*bytes` and `*size` are set to the memory. The program stores there with
 * any thread, but not during ow_draft_msync, and changes the file's content in no other way. Costs twice the file's
 * size. Returns NULL with errno after a failure.
 */
struct ow_mapping *ow_mapping_begin(const struct ow_draft_file *file,
                                    void **bytes,
                                    size_t *size);

/**
 * Makes what was stored into `count` mappings of the draft, and all its other changes, visible and durable as one
 * step. Returns 0, or -1 with errno, also ENOSPC and EFBIG: nothing is visible then, and the stores stay in memory.
 */
int ow_draft_msync(const struct ow_draft *draft,
                   struct ow_mapping *const *mappings,
                   size_t count);

/**
 * Ends a mapping and its memory: what was stored since the last ow_draft_msync is lost. NULL is no error. Returns 0.
 */
int ow_mapping_end(struct ow_mapping *mapping);

/**
 * As ow_pread, of the file as the draft has it.
 */
ssize_t ow_draft_pread(const struct ow_draft_file *file, void *buffer, size_t count, int64_t offset);

/**
 * Writes all `count` bytes of `buffer` at `offset` into the draft, or nothing; behind the end if `offset` is -1.
 * ENOSPC, EFBIG: the commit would not fit. Returns `count`, or -1 with errno.
 */
ssize_t ow_draft_pwrite(const struct ow_draft_file *file,
                        const void *buffer,
                        size_t count,
                        int64_t offset);

/**
 * Truncates the file in the draft to `size` bytes, or extends it with zeros. Returns 0, or -1 with errno.
 */
int ow_draft_ftruncate(const struct ow_draft_file *file, int64_t size);

/**
 * Makes `length` bytes at `offset` read as zeros, in the draft; the size stays. Returns 0, or -1 with errno.
 */
int ow_draft_punch(const struct ow_draft_file *file, int64_t offset, int64_t length);

/**
 * Size of the file as the draft has it. Returns it, or -1 with errno.
 */
int64_t ow_draft_size(const struct ow_draft_file *file);

/**
 * Gives back a file of a draft, which keeps it and its changes. NULL is no error. Returns 0.
 */
int ow_draft_file_close(struct ow_draft_file *file);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONEWRITE_H */
