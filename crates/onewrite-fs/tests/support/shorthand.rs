//! Shorthand for small files below the root, on any file system.

use std::rc::Rc;

use onewrite_fs::{Content, FileSystem, FsResult, Ino, Manner, NewNode, Position};

/// Makes a file with this content.
pub async fn file<F: FileSystem>(fs: &Rc<F>, name: &[u8], content: &[u8]) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    fs.write(file, Position::At(0), Content::Bytes(content), Manner::default()).await?;
    Ok(file)
}

/// All of a file.
pub async fn content<F: FileSystem>(fs: &Rc<F>, ino: Ino) -> Vec<u8> {
    fs.read(ino, 0, u64::MAX, Manner::default()).await.expect("read").to_vec()
}

/// All of the file of this name.
pub async fn content_at<F: FileSystem>(fs: &Rc<F>, name: &[u8]) -> Vec<u8> {
    let ino = fs.lookup(fs.root(), name).await.expect("the name exists");
    content(fs, ino).await
}

/// Whether there is such a name.
pub async fn exists<F: FileSystem>(fs: &Rc<F>, name: &[u8]) -> bool {
    fs.lookup(fs.root(), name).await.is_ok()
}
