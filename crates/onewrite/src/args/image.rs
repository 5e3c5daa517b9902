//! Arguments of the commands that look at an image and change what lies in it.

use clap::Args;

/// `onewrite ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// With kinds, permissions, owners, sizes and dates.
    #[arg(short, long)]
    pub long: bool,
    /// Read what is left of a damaged image: backups of superblock and descriptors, no checksums. What cannot be read
    /// is named (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE or IMAGE:/PATH.
    pub place: String,
}

/// `onewrite cat`
#[derive(Debug, Args)]
pub struct Cat {
    /// Read what is left of a damaged image: backups of superblock and descriptors, no checksums. What cannot be read
    /// is named (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE:/PATH of a file.
    pub place: String,
}

/// `onewrite tree`
#[derive(Debug, Args)]
pub struct Tree {
    /// Read what is left of a damaged image: backups of superblock and descriptors, no checksums. What cannot be read
    /// is named (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// IMAGE or IMAGE:/PATH of a directory.
    pub place: String,
}

/// `onewrite stat`
#[derive(Debug, Args)]
pub struct Stat {
    /// Read what is left of a damaged image: backups of superblock and descriptors, no checksums. What cannot be read
    /// is named (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// Each IMAGE:/PATH.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite mv`
#[derive(Debug, Args)]
pub struct Mv {
    /// What to move and where to, each IMAGE:/PATH of one image: into a directory that exists, or to a new name.
    #[arg(required = true, num_args = 2..)]
    pub places: Vec<String>,
}

/// `onewrite rm`
#[derive(Debug, Args)]
pub struct Rm {
    /// Remove directories, with all that lies below them.
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// What to remove, each IMAGE:/PATH.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite mkdir`
#[derive(Debug, Args)]
pub struct Mkdir {
    /// Make the directories above it, too, and be content with those that exist.
    #[arg(short, long)]
    pub parents: bool,
    /// What to make, each IMAGE:/PATH; owned by root, with permissions 0755.
    #[arg(required = true)]
    pub places: Vec<String>,
}

/// `onewrite cp`
///
/// Always kept: content with its holes, symbolic and hard links, times, `user.` attributes. An image also keeps owners,
/// all permissions, access control lists and all extended attributes. On the host the copies are yours, with the
/// permissions that your umask allows and without set-user-ID and the like, unless -p is given: an image is a
/// stranger's. Existing directories are merged, existing files and symbolic links replaced once the new file is whole,
/// and no link is followed but one that you name as the target. What cannot be copied or kept is named at the end, the
/// rest is copied.
#[derive(Debug, Args)]
pub struct Cp {
    /// On the host, keep owners (as root), all permissions, access control lists and all extended attributes, and make
    /// device nodes (as root).
    #[arg(short, long)]
    pub preserve: bool,
    /// Out of an image, copy what is left of a damaged image: backups of superblock and descriptors, no checksums. What
    /// cannot be read is named (exit status 1).
    #[arg(long)]
    pub rescue: bool,
    /// What to copy, each PATH or IMAGE:/PATH, and where to: into a directory that exists, or under a new name.
    #[arg(required = true, num_args = 2..)]
    pub places: Vec<String>,
}
