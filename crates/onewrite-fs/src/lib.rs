//! File systems: the ext4 format, the jbd2 journal, the checker and the public file-system API.
