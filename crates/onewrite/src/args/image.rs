//! Arguments of the commands that read or change an image.

use clap::Args;

/// `onewrite ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// Show kinds, permissions, owners, sizes and dates.
    #[arg(short, long)]
    pub long: bool,
    /// Read what is left of a damaged image: use backups of superblock and descriptors, ignore checksums. Unreadable
    /// parts are listed (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE or IMAGE:/PATH.
    pub place: String,
}

/// `onewrite cat`
#[derive(Debug, Args)]
pub struct Cat {
    /// Read what is left of a damaged image: use backups of superblock and descriptors, ignore checksums. Unreadable
    /// parts are listed (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE:/PATH of a file.
    pub place: String,
}

/// `onewrite tree`
#[derive(Debug, Args)]
pub struct Tree {
    /// Read what is left of a damaged image: use backups of superblock and descriptors, ignore checksums. Unreadable
    /// parts are listed (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE or IMAGE:/PATH of a directory.
    pub place: String,
}

/// `onewrite stat`
#[derive(Debug, Args)]
pub struct Stat {
    /// Read what is left of a damaged image: use backups of superblock and descriptors, ignore checksums. Unreadable
    /// parts are listed (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// Files to show, each IMAGE:/PATH.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite mv`
#[derive(Debug, Args)]
pub struct Mv {
    /// Sources, then the target, each IMAGE:/PATH of one image. The target is an existing directory or a new name.
    #[arg(required = true, num_args = 2..)]
    pub places: Vec<String>,
}

/// `onewrite rm`
#[derive(Debug, Args)]
pub struct Rm {
    /// Remove directories with everything below them.
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Files to remove, each IMAGE:/PATH.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite mkdir`
#[derive(Debug, Args)]
pub struct Mkdir {
    /// Also make missing parent directories, and accept existing directories.
    #[arg(short, long)]
    pub parents: bool,
    /// Directories to make, each IMAGE:/PATH; owned by root, with permissions 0755.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite cp`
///
/// Always kept: content with its holes, symbolic and hard links, times, `user.` attributes. An image also keeps owners,
/// all permissions, access control lists and all extended attributes. On the host the copies are yours, with the
/// permissions that your umask allows and without set-user-ID and the like, because an image may come from a stranger;
/// -p keeps more. Existing directories are merged. Existing files and symbolic links are replaced when the new file is
/// complete. No link is followed, except one that you name as the target. What cannot be copied or kept is listed at
/// the end; the rest is copied.
#[derive(Debug, Args)]
pub struct Cp {
    /// On the host, keep owners (as root), all permissions, access control lists and all extended attributes, and make
    /// device nodes (as root).
    #[arg(short, long)]
    pub preserve: bool,
    /// Copy what is left of a damaged image: use backups of superblock and descriptors, ignore checksums. Unreadable
    /// parts are listed (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// Sources, then the target, each PATH or IMAGE:/PATH. The target is an existing directory or a new name.
    #[arg(required = true, num_args = 2..)]
    pub places: Vec<String>,
}
